/**
 * How far documents are with the proxies of all replicas:
 *
 *   streams of proxies ─▶ open documents ─┬─ where this replica leads ─▶ statuses
 *                                         └─ elsewhere ─▶ Lease of the replica ─▶ replica that leads ─▶ statuses
 *   statuses in the API server ─▶ open documents: those that are settled need no report
 */
import type { ProxyNode } from '../../core/proxy.ts';
import { encodeEntries, ReportExchange, type ReportKind, type ReportLeaseOptions } from '../../object-status/index.ts';
import type { ResourceKey } from '../../resources/index.ts';
import { type DocumentState, decodeState, encodeState } from './document-state.ts';
import { FollowedProxies, type FollowedProxiesOptions, type ObservedProxy } from './followed-proxies.ts';
import { OpenDocuments, type OpenDocumentsOptions } from './open-documents.ts';

/** The part that the controller uses. */
export interface Acknowledgements {
  /** The last report of each replica about a document; undefined: it has not reported about it. */
  of(key: ResourceKey): readonly (DocumentState | undefined)[];
  /** Whether the reports of the other replicas have been read. */
  readonly areKnown: boolean;
  /** This replica leads until the returned function is called. `onChanged`: with no key, replicas have come or gone. */
  follow(onChanged: (keys: readonly ResourceKey[]) => void): () => Promise<void>;
}

export type DocumentAcknowledgementsOptions = Omit<ReportLeaseOptions, 'report' | 'kind'> &
  FollowedProxiesOptions &
  Omit<OpenDocumentsOptions, 'proxies' | 'onChanged'>;

/** Of all revisions: their proxies get the same documents. */
const REPORTS: ReportKind = {
  prefix: 'meshd-documents-',
  label: 'mesh.io/documents-report',
  group: 'all',
  annotation: 'mesh.io/acknowledged',
  about: 'what proxies have acknowledged',
};

export class DocumentAcknowledgements implements Acknowledgements {
  readonly #proxies: FollowedProxies;
  readonly #documents: OpenDocuments;
  readonly #exchange: ReportExchange;

  constructor(options: DocumentAcknowledgementsOptions) {
    this.#proxies = new FollowedProxies(options);
    this.#documents = new OpenDocuments({
      ...options,
      proxies: this.#proxies,
      onChanged: (keys) => this.#exchange.changed(keys),
    });
    // An empty report says that there is a replica. What is left out follows once the statuses of others are written.
    this.#exchange = new ReportExchange({ ...options, kind: REPORTS, report: () => this.#report() });
  }

  /** Writes the first report. */
  start(): void {
    this.#exchange.changed([]);
  }

  /** See `WorkloadConnected`. */
  connected(node: ProxyNode, proxy: ObservedProxy): { rejected(): void; disconnected(): void } {
    const followed = this.#proxies.add(node, proxy);
    return {
      rejected: () => this.#documents.rejected(followed),
      disconnected: () => {
        this.#proxies.delete(followed);
        this.#documents.disconnected(followed);
      },
    };
  }

  /** See `OpenDocuments.changed`. */
  changed(key: ResourceKey, unsettled: number): void {
    this.#documents.changed(key, unsettled);
  }

  of(key: ResourceKey): readonly (DocumentState | undefined)[] {
    const others = this.#exchange.of(key);
    return [this.#documents.of(key), ...others.map((text) => (text === undefined ? undefined : decodeState(text)))];
  }

  get areKnown(): boolean {
    return this.#exchange.areKnown;
  }

  follow(onChanged: (keys: readonly ResourceKey[]) => void): () => Promise<void> {
    return this.#exchange.follow((keys) => onChanged(keys as readonly ResourceKey[]));
  }

  async close(): Promise<void> {
    this.#documents.close();
    await this.#exchange.close();
  }

  #report(): string {
    const entries = [...this.#documents.states()].map(([key, state]) => [key, encodeState(state)] as const);
    return encodeEntries(new Map(entries), (key) => key.split('/', 2)[1] ?? '').text;
  }
}
