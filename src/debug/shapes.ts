/** The JSON of debug pages that the page application reads. Types alone: it imports them from here. */

/** REJECTED: the proxy does not take what it was sent. STALE: it has not acknowledged the last response. */
export type SyncState = 'SYNCED' | 'NOT SENT' | 'STALE' | 'REJECTED';

/** One proxy, as pages show it. */
export interface ProxyRow {
  readonly proxy: string;
  readonly id: string;
  readonly connection: string;
  readonly namespace: string;
  readonly type: string;
  readonly cluster: string;
  readonly version: string;
  /** Unix ms. */
  readonly connectedAt: number;
  readonly mode: 'sotw' | 'delta';
  /** The worst state of its types. */
  readonly state: SyncState;
  /** By type: `cluster`, `listener` … */
  readonly types: Readonly<Record<string, SyncState>>;
  /** The last rejection that still matters, in the proxy's words. */
  readonly rejection?: {
    readonly type: string;
    readonly message: string;
    readonly resources: readonly string[];
    readonly at: number;
  };
}

/** The number of proxies by state. */
export type ProxyCounts = Readonly<Record<SyncState, number>> & { readonly total: number };

/** `/debug/overviewz` */
export interface Overview {
  readonly proxies: ProxyCounts;
  /** What needs attention, each with the number of cases. */
  readonly problems: Readonly<Record<ProblemKind, number>>;
  /** Of the whole program: absent for a viewer of one namespace. */
  readonly program?: {
    readonly uptimeSeconds: number;
    readonly snapshotVersion: number;
    readonly services: number;
    readonly queued: number;
    readonly underWay: number;
    readonly views: number;
    readonly memory: { readonly rss: number; readonly heapUsed: number; readonly heapLimit: number };
    readonly certificates: readonly {
      readonly name: string;
      readonly expires: string;
      readonly days: number;
      /** `warn`: it expires soon and should have been renewed. */
      readonly state: 'good' | 'warn' | 'bad';
    }[];
    readonly sources: readonly {
      readonly id: string;
      readonly state: 'current' | 'reading' | 'failing';
      readonly staleSeconds: number;
    }[];
  };
}

export type ProblemKind =
  | 'rejectingProxies'
  | 'refusedDocuments'
  | 'refusedPolicies'
  | 'failingViews'
  | 'findings'
  | 'nameConflicts'
  | 'staleSources';

/** `/debug/proxiesz`: one page of a list of proxies. */
export interface ProxyPage {
  /** Of all proxies, whatever is searched for. */
  readonly counts: ProxyCounts;
  readonly matching: number;
  /** The value of `start` for the next page; absent on the last one. */
  readonly next?: number;
  readonly proxies: readonly ProxyRow[];
}
