/**
 * The mesh as one viewer of debug pages may see it. Pages read the state of the program only through this class, which
 * leaves out namespaces that the viewer may not see.
 */
import { type Analysis, analyze } from '../analysis/index.ts';
import { CtlError } from '../core/errors.ts';
import type { ProxyNode } from '../core/proxy.ts';
import { byXdsType, type XdsType } from '../core/xds-types.ts';
import type { GenerationFinding } from '../generate/index.ts';
import type {
  BoundInstance,
  Endpoint,
  NameConflict,
  PeerAuthentication,
  Service,
  Snapshot,
  SnapshotFindings,
  WorkloadPolicies,
} from '../model/index.ts';
import {
  type Bundle,
  type ChosenConfiguration,
  type ConnectionStatus,
  configurationOf,
  type EncodedResource,
  type FailingView,
  type ReadUnits,
  type Reason,
  type WithheldOfView,
} from '../push/index.ts';
import {
  type Kind,
  keyOf,
  type Resource,
  type ResourceKey,
  type ResourceProblem,
  type ResourceWarning,
} from '../resources/index.ts';
import type { SourceDocument } from '../store/index.ts';
import type { HeldContent } from '../xds/index.ts';
import type { ProxyRow } from './shapes.ts';
import type { DebugSource, LeaderStatus, Recent, RefusedPolicy, SourceStatus } from './types.ts';

/** The visibility of a caller: everything, or the documents, services and proxies of one namespace. */
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
  /** One snapshot for the whole page. */
  #snapshot: Snapshot | undefined;
  /** What proxies hold, by connection. */
  readonly #held = new Map<string, { readonly held: HeldContent | undefined }>();

  constructor(source: DebugSource, viewer: Viewer) {
    this.#source = source;
    this.#viewer = viewer;
  }

  get #mesh(): Snapshot {
    this.#snapshot ??= this.#source.snapshot();
    return this.#snapshot;
  }

  /** Resources without a namespace (`''`) are only for viewers who see everything. */
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

  /** What the proxy should have now. */
  parts(connection: ConnectionStatus, type: XdsType): readonly Bundle[] {
    return this.held(connection)?.parts(type) ?? this.everything(connection, type);
  }

  /** The same, and what it may ask for. */
  everything({ connectionId, node }: ConnectionStatus, type: XdsType): readonly Bundle[] {
    return this.sees(node.namespace) ? this.#source.parts(connectionId, type) : [];
  }

  /** What a proxy on demand may ask for and does not hold. */
  askable(connection: ConnectionStatus, type: XdsType): readonly EncodedResource[] {
    const held = this.held(connection);
    if (held === undefined) return [];
    const has = held.parts(type);
    return this.everything(connection, type).flatMap((bundle) =>
      bundle.resources().filter(({ name }) => !has.some((part) => part.get(name) !== undefined)),
    );
  }

  /** Whether a cluster, its endpoints or a virtual host are generated when a proxy like this one asks for them. */
  isLater({ connectionId, node }: ConnectionStatus, type: XdsType, name: string): boolean {
    const asked = type === 'eds' ? 'cds' : type;
    if ((asked !== 'cds' && asked !== 'vhds') || !this.sees(node.namespace)) return false;
    return this.#source.isLater?.(connectionId, asked, name) === true;
  }

  /** What a proxy on demand holds; undefined for one that gets everything. */
  held({ connectionId, node }: ConnectionStatus): HeldContent | undefined {
    if (!this.sees(node.namespace)) return undefined;
    const known = this.#held.get(connectionId);
    if (known !== undefined) return known.held;
    const held = this.#source.held?.(connectionId);
    this.#held.set(connectionId, { held });
    return held;
  }

  /** What a proxy gets of the mesh, and why it gets everything where the mesh says otherwise. */
  configurationOf({ node }: ConnectionStatus): ChosenConfiguration {
    return configurationOf(this.#mesh, node);
  }

  /** Unix ms of the moments at which it is known what the proxy should have had, the newest first. */
  earlierMoments({ node }: ConnectionStatus): readonly number[] {
    return this.sees(node.namespace) ? (this.#source.recent?.contents.moments(node) ?? []) : [];
  }

  /** What the proxy should have had at such a moment; if it is on demand, with what it has asked for until now. */
  earlierParts(connection: ConnectionStatus, at: number, type: XdsType): readonly Bundle[] | undefined {
    const { node } = connection;
    const { contents } = this.#source.recent ?? {};
    const parts = this.sees(node.namespace) ? contents?.parts(node, at, type) : undefined;
    const held = parts && this.held(connection);
    return held === undefined ? parts : held.of(byXdsType((each) => contents?.parts(node, at, each) ?? []))[type];
  }

  /** Undefined for a viewer of one namespace, because errors of sources name files and addresses. */
  sources(): readonly SourceStatus[] | undefined {
    return this.seesAll ? this.#source.sources() : undefined;
  }

  /** Empty for a viewer of one namespace, because names of replicas are names of Pods in another. */
  leadership(): readonly LeaderStatus[] {
    return this.seesAll ? this.#source.leadership() : [];
  }

  /** All documents of a key, first the one in force. */
  documents(key: ResourceKey): readonly SourceDocument[] {
    return this.sees(namespaceOf(key)) ? this.#source.documents(key) : [];
  }

  /** The warnings about a document in force that depend on other documents. */
  warningsOf(key: ResourceKey): readonly ResourceWarning[] {
    return this.sees(namespaceOf(key)) ? this.#source.warningsOf(key) : [];
  }

  /** Keys with documents of several sources. */
  *sharedKeys(): Generator<ResourceKey> {
    for (const key of this.#source.sharedKeys()) if (this.sees(namespaceOf(key))) yield key;
  }

  /** Refused documents. Those of an unknown namespace are only for viewers who see everything. */
  problems(): ResourceProblem[] {
    return this.#source.problems().filter(({ key }) => this.sees(namespaceOf(key)));
  }

  /** Refused documents of the security kinds. */
  refusedPolicies(): RefusedPolicy[] {
    return this.#source.refusedPolicies().filter(({ problem }) => this.sees(namespaceOf(problem.key)));
  }

  /** Resources that are withheld from proxies. */
  withheld(): WithheldOfView[] {
    return this.#source.withheld().filter(({ namespace }) => this.sees(namespace));
  }

  findings(): readonly GenerationFinding[] {
    return this.#source.findings((namespace) => this.sees(namespace));
  }

  /** What analysis finds in documents of the viewer. */
  analysis(): Analysis {
    return analyze(this.#source.analysisInput(), (namespace) => this.sees(namespace));
  }

  /** Names in documents of the viewer that belong to others. */
  *nameConflicts(): Generator<NameConflict> {
    for (const conflict of this.#mesh.nameConflicts()) if (this.sees(namespaceOf(conflict.resource))) yield conflict;
  }

  *services(): Generator<readonly [key: string, service: Service]> {
    for (const entry of this.#mesh.services.sorted()) {
      if (this.sees(entry[1].namespace)) yield entry;
    }
  }

  /** The first visible service that is in force for one of these host names. */
  serviceNamed(hostnames: readonly string[]): Service | undefined {
    for (const hostname of hostnames) {
      const [found] = this.#mesh.servicesByHost(hostname).filter(({ namespace }) => this.sees(namespace));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Of the whole mesh. */
  get serviceCount(): number {
    return this.#mesh.services.size;
  }

  endpoints({ key, namespace }: Service): readonly Endpoint[] {
    return this.sees(namespace) ? (this.#mesh.endpoints.get(key) ?? []) : [];
  }

  *resources<K extends Kind>(kind: K): Generator<Resource<K>> {
    for (const [, resource] of this.#mesh.resources(kind).sorted()) {
      if (this.sees(resource.meta.namespace)) yield resource;
    }
  }

  instancesOf(node: Pick<ProxyNode, 'addresses' | 'clusterId' | 'labels' | 'network'>): BoundInstance[] {
    const mesh = this.#mesh;
    const instances = node.addresses.flatMap((address) =>
      mesh.instancesAt(mesh.networkOfProxy(node, address), address),
    );
    return instances.filter(({ service }) => this.sees(service.slice(0, service.indexOf('/'))));
  }

  /**
   * Which proxies have which version of a resource; undefined for one that is unknown or not visible. Throws CtlError
   * failed_precondition when distribution is not tracked.
   */
  distribution(key: ResourceKey): readonly object[] | undefined {
    if (this.#source.distribution === undefined) {
      const variable = 'CTL_ENABLE_CONFIG_DISTRIBUTION_TRACKING';
      throw new CtlError('failed_precondition', `distribution of configuration is not tracked: set ${variable}=true`);
    }
    return this.sees(namespaceOf(key)) ? this.#source.distribution(key, this.connections()) : undefined;
  }

  /**
   * What a resource of a proxy was generated from. Documents of other namespaces have their names, but no origin.
   */
  reasonsFor({ connectionId, node }: ConnectionStatus, name: string): readonly Reason[] {
    return this.sees(node.namespace) ? this.#source.reasonsFor(connectionId, name) : [];
  }

  /**
   * The visible connections whose configuration read a document; undefined when the document is not visible.
   */
  readersOf(document: ResourceKey): ReadonlyMap<ConnectionStatus, readonly ReadUnits[]> | undefined {
    if (!this.sees(namespaceOf(document))) return undefined;
    const readers = this.#source.readersOf(document);
    const found = this.connections().map((connection) => [connection, readers.get(connection.connectionId)] as const);
    return new Map(found.flatMap(([connection, units]) => (units === undefined ? [] : [[connection, units] as const])));
  }

  /** State of the whole program; undefined for a viewer of one namespace. */
  totals(): Totals | undefined {
    if (!this.seesAll) return undefined;
    const [engine, failing] = [this.#source.engine(), this.#source.failing()];
    return { version: this.#mesh.version, engine, failing, model: this.#mesh.findings() };
  }

  /**
   * The program's settings and its connections to others. Throws CtlError permission_denied for a viewer of one
   * namespace.
   */
  whole(): Pick<DebugSource, 'mesh' | 'injection' | 'sources'> & Pick<Snapshot, 'networkGateways'> {
    if (!this.seesAll) {
      throw new CtlError(
        'permission_denied',
        'this page needs a bearer token of the root namespace, or a request from this machine to localhost',
      );
    }
    const source = this.#source;
    return {
      mesh: () => source.mesh(),
      injection: () => source.injection(),
      sources: () => source.sources(),
      networkGateways: this.#mesh.networkGateways,
    };
  }

  /** Which documents say how workloads with these labels are authenticated and authorized. */
  policiesOf(
    namespace: string,
    labels: Readonly<Record<string, string>>,
  ): WorkloadPolicies & {
    readonly peerAuthentication: PeerAuthentication;
  } {
    const policies = this.#mesh.policiesOf(namespace, labels);
    return { peerAuthentication: this.#mesh.peerAuthenticationOf(namespace, labels), ...policies };
  }

  /** The visible PeerAuthentications about workloads with these labels, of the root namespace too. */
  peerAuthenticationsOf(namespace: string, labels: Readonly<Record<string, string>>): ResourceKey[] {
    const home = new Set([namespace, this.#mesh.settings.rootNamespace]);
    const about = [...this.resources('PeerAuthentication')].filter(({ meta, content }) => {
      const wanted = Object.entries(content.selector?.matchLabels ?? {});
      return home.has(meta.namespace) && wanted.every(([name, value]) => labels[name] === value);
    });
    return about.map(keyOf);
  }

  /** Empty for a viewer of one namespace, because it is the name of a Pod in another. */
  get replica(): string {
    return this.seesAll ? this.#source.replica : '';
  }

  /** The states of the visible proxies, by name. Yields between slices. */
  *proxyRows(): Generator<void, readonly ProxyRow[]> {
    const rows = (yield* this.#source.recent?.proxies.rows() ?? []) ?? [];
    return this.seesAll ? rows : rows.filter(({ namespace }) => this.sees(namespace));
  }

  /** What happened in the last minutes; undefined for a viewer of one namespace, because it is of the whole program. */
  recent(): Omit<Recent, 'proxies'> | undefined {
    return this.seesAll ? this.#source.recent : undefined;
  }

  get showConfigInAdsz(): boolean {
    return this.#source.showConfigInAdsz;
  }
}

/** The namespace in the key `Kind/namespace/name`; '' without a key. */
function namespaceOf(key: ResourceKey | undefined): string {
  return key?.split('/')[1] ?? '';
}
