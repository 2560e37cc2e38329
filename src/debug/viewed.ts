/**
 * The mesh as one viewer of the debug pages may see it. Pages read the program's state only through here: what belongs
 * to a namespace that the viewer does not see is not in it.
 */
import { CtlError } from '../core/errors.ts';
import type { ProxyNode } from '../core/proxy.ts';
import type { GenerationFinding, XdsType } from '../generate/types.ts';
import type { BoundInstance, Endpoint, NameConflict, Service, Snapshot, SnapshotFindings } from '../model/index.ts';
import type { ReadUnits, Reason } from '../push/index.ts';
import type { Bundle, ConnectionStatus, FailingView } from '../push/types.ts';
import type { Kind, Resource, ResourceKey, ResourceProblem } from '../resources/index.ts';
import type { SourceDocument } from '../store/index.ts';
import type { DebugSource, RefusedPolicy, SourceStatus } from './types.ts';

/** Who looks: one who sees everything, or one who sees the documents, services and proxies of one namespace. */
export type Viewer = 'all' | { readonly namespace: string };

interface Totals {
  readonly version: number;
  readonly engine: Readonly<Record<string, number>>;
  readonly failing: readonly FailingView[];
  readonly model: SnapshotFindings;
}

export class Viewed {
  readonly #source: DebugSource;
  readonly #viewer: Viewer;
  /** The same for all of a page, however long it takes to make. */
  #snapshot: Snapshot | undefined;

  constructor(source: DebugSource, viewer: Viewer) {
    this.#source = source;
    this.#viewer = viewer;
  }

  get #mesh(): Snapshot {
    this.#snapshot ??= this.#source.snapshot();
    return this.#snapshot;
  }

  /** What belongs to no namespace (`''`) is for those who see everything. */
  sees(namespace: string): boolean {
    return this.#viewer === 'all' || (namespace !== '' && this.#viewer.namespace === namespace);
  }

  get seesAll(): boolean {
    return this.#viewer === 'all';
  }

  /** Live streams, in order of connection. */
  connections(): ConnectionStatus[] {
    return this.#source.connections().filter(({ node }) => this.sees(node.namespace));
  }

  parts({ connectionId, node }: ConnectionStatus, type: XdsType): readonly Bundle[] {
    return this.sees(node.namespace) ? this.#source.parts(connectionId, type) : [];
  }

  /** Undefined for who does not see everything: what is wrong with a source names files and addresses. */
  sources(): readonly SourceStatus[] | undefined {
    return this.seesAll ? this.#source.sources() : undefined;
  }

  /** All documents of a key, the one in force first. */
  documents(key: ResourceKey): readonly SourceDocument[] {
    return this.sees(namespaceOf(key)) ? this.#source.documents(key) : [];
  }

  /** Keys of which several sources have a document. */
  *sharedKeys(): Generator<ResourceKey> {
    for (const key of this.#source.sharedKeys()) if (this.sees(namespaceOf(key))) yield key;
  }

  /** Documents that could not be taken; of those whose namespace is not known, only for who sees everything. */
  problems(): ResourceProblem[] {
    return this.#source.problems().filter(({ key }) => this.sees(namespaceOf(key)));
  }

  /** Refused documents of the security kinds. */
  refusedPolicies(): RefusedPolicy[] {
    return this.#source.refusedPolicies().filter(({ problem }) => this.sees(namespaceOf(problem.key)));
  }

  findings(): readonly GenerationFinding[] {
    return this.#source.findings((namespace) => this.sees(namespace));
  }

  /** Documents of the viewer that claim names of others. */
  *nameConflicts(): Generator<NameConflict> {
    for (const conflict of this.#mesh.nameConflicts()) if (this.sees(namespaceOf(conflict.resource))) yield conflict;
  }

  *services(): Generator<readonly [key: string, service: Service]> {
    for (const entry of this.#mesh.services.sorted()) {
      if (this.sees(entry[1].namespace)) yield entry;
    }
  }

  endpoints({ key, namespace }: Service): readonly Endpoint[] {
    return this.sees(namespace) ? (this.#mesh.endpoints.get(key) ?? []) : [];
  }

  *resources<K extends Kind>(kind: K): Generator<Resource<K>> {
    for (const [, resource] of this.#mesh.resources(kind).sorted()) {
      if (this.sees(resource.meta.namespace)) yield resource;
    }
  }

  instancesOf(node: Pick<ProxyNode, 'addresses' | 'labels' | 'network'>): BoundInstance[] {
    const mesh = this.#mesh;
    const instances = node.addresses.flatMap((address) =>
      mesh.instancesAt(mesh.networkOfProxy(node, address), address),
    );
    return instances.filter(({ service }) => this.sees(service.slice(0, service.indexOf('/'))));
  }

  /**
   * Where a resource has arrived; undefined when nothing is known of it, or it is not the viewer's. Throws CtlError
   * failed_precondition when that is not tracked.
   */
  distribution(key: ResourceKey): readonly object[] | undefined {
    if (this.#source.distribution === undefined) {
      const variable = 'CTL_ENABLE_CONFIG_DISTRIBUTION_TRACKING';
      throw new CtlError('failed_precondition', `distribution of configuration is not tracked: set ${variable}=true`);
    }
    return this.sees(namespaceOf(key)) ? this.#source.distribution(key, this.connections()) : undefined;
  }

  /**
   * What a proxy's resource of this name is made of; of other namespaces' documents their names, and not where they are
   * written.
   */
  reasonsFor({ connectionId, node }: ConnectionStatus, name: string): readonly Reason[] {
    return this.sees(node.namespace) ? this.#source.reasonsFor(connectionId, name) : [];
  }

  /**
   * The viewer's connections whose configuration a document was read for; undefined when the document is not the
   * viewer's.
   */
  readersOf(document: ResourceKey): ReadonlyMap<ConnectionStatus, readonly ReadUnits[]> | undefined {
    if (!this.sees(namespaceOf(document))) return undefined;
    const readers = this.#source.readersOf(document);
    const found = this.connections().map((connection) => [connection, readers.get(connection.connectionId)] as const);
    return new Map(found.flatMap(([connection, units]) => (units === undefined ? [] : [[connection, units] as const])));
  }

  /** State of the whole program; undefined for who does not see everything. */
  totals(): Totals | undefined {
    if (!this.seesAll) return undefined;
    const [engine, failing] = [this.#source.engine(), this.#source.failing()];
    return { version: this.#mesh.version, engine, failing, model: this.#mesh.findings() };
  }

  get showConfigInAdsz(): boolean {
    return this.#source.showConfigInAdsz;
  }
}

/** Of a resource's key `Kind/namespace/name`; '' when there is none. */
function namespaceOf(key: ResourceKey | undefined): string {
  return key?.split('/')[1] ?? '';
}
