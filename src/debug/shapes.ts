/** The JSON of debug pages that the page application reads. Types alone: it imports them from here. */

/** REJECTED: the proxy does not take what it was sent. STALE: it has not acknowledged the last response. */
export type SyncState = 'SYNCED' | 'NOT SENT' | 'STALE' | 'REJECTED';

/** What a proxy gets of the mesh: everything, or what it asks for (and others of its configuration have asked for). */
export interface ProxyConfiguration {
  readonly mode: 'all' | 'on-demand' | 'learned';
  /** Why it gets everything although the mesh or its own metadata says otherwise. */
  readonly because?: string;
  /** Of a proxy that asks. */
  readonly hosts?: {
    /** Names that it asked for. */
    readonly asked: number;
    /** Those of them that the mesh does not know. */
    readonly unknown: number;
    /** Virtual hosts that others have asked for. */
    readonly learned: number;
    /** Virtual hosts that its Sidecar names. */
    readonly named: number;
    /** Virtual hosts that it had before it reconnected. */
    readonly kept: number;
  };
}

/** Whether a proxy on demand holds a resource, and why. */
export interface HeldShown {
  readonly held: boolean;
  /** `asked for by host …`, `learned from …`, `not asked for yet` … */
  readonly because: readonly string[];
}

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
  readonly configuration: ProxyConfiguration;
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
  | 'withheld'
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

/** `/debug/proxyz?proxyID=` */
export interface ProxyDetail {
  readonly proxy: ProxyRow;
  readonly node: {
    readonly addresses: readonly string[];
    readonly labels: Readonly<Record<string, string>>;
    readonly network: string;
    readonly serviceAccount: string;
    readonly peer: string;
  };
  /** The types of which it should have resources, in the order in which they are sent. */
  readonly types: readonly {
    readonly type: string;
    readonly noun: string;
    readonly resources: number;
    /** Resources that it may ask for and does not hold; absent for a proxy that gets everything. */
    readonly askable?: number;
  }[];
  /** Unix ms of the moments that `&at=` takes, the newest first. */
  readonly moments: readonly number[];
}

/** `/debug/proxyz?proxyID=&type=`, with `&askable=true` what it may ask for and does not hold */
export interface ProxyResources {
  readonly matching: number;
  /** The value of `start` for the next page; absent on the last one. */
  readonly next?: number;
  readonly resources: readonly { readonly name: string; readonly version: string }[];
}

/** `/debug/proxyz?proxyID=&type=&name=`, with `&at=` as it was then. */
export interface ProxyResource {
  readonly name: string;
  readonly version: string;
  /** Of a cluster: the names of its endpoints; of a listener: of its routes. */
  readonly refs: readonly string[];
  /** The documents that it was generated from. Those of other namespaces have no origin. */
  readonly madeBy: readonly { readonly key: string; readonly origin?: Origin }[];
  /** Absent for a proxy that gets everything. */
  readonly onDemand?: HeldShown;
  /** The message as Envoy shows it, without secrets. */
  readonly content: unknown;
}

export interface Origin {
  readonly source: string;
  readonly file?: string;
  readonly line?: number;
}

/** `/debug/proxyz?proxyID=&type=&versus=`, or with `&at=` the difference from what it had then: names, at most 100 of each. */
export interface ProxyDifference {
  /** The number of resources that both have in the same version. */
  readonly same: number;
  readonly counts: { readonly changed: number; readonly onlyHere: number; readonly onlyThere: number };
  readonly changed: readonly string[];
  readonly onlyHere: readonly string[];
  readonly onlyThere: readonly string[];
  /** Resources that only one of them holds, and that the other one may ask for: they are no difference. */
  readonly askable?: { readonly here: number; readonly there: number };
}
