/** The mesh as analyzers read it: documents, services and workloads, with the lookups that several of them need. */
import type { Language } from '../../expressions/index.ts';
import {
  canonicalHost,
  fullHostname,
  isVisible,
  labelsMatch,
  type ModelSettings,
  matchingPatterns,
  type Service,
  type Snapshot,
} from '../../model/index.ts';
import {
  type Kind,
  keyOf,
  type Resource,
  type ResourceKey,
  type ResourceOrigin,
  type ResourceProblem,
  type ResourceWarning,
  resourceKey,
  writtenKind,
} from '../../resources/index.ts';
import { MESSAGES, type MessageCode } from '../messages/index.ts';
import type { AnnotationRule, Finding, FoundResource, Manifest, Workload } from '../types.ts';
import { isInMesh } from './injection.ts';
import { WorkloadIndex } from './workloads.ts';

export interface AnalysisInput {
  readonly snapshot: Snapshot;
  /** Refused documents. */
  readonly problems: readonly ResourceProblem[];
  /** The warnings about a document that depend on others. */
  readonly warningsOf: (key: ResourceKey) => readonly ResourceWarning[];
  /** Workloads that no document describes: proxies that are connected. */
  readonly proxies: Iterable<Workload>;
  /** Empty where only what the mesh reads is known. */
  readonly manifests: readonly Manifest[];
  /** By name of `mesh.io`; undefined where annotations are not checked. */
  readonly annotationRules?: ReadonlyMap<string, AnnotationRule> | undefined;
  /** Whether the Secrets that Gateways name are read; gateways may read them themselves instead. */
  readonly readsSecrets: boolean;
  /** The language of expressions of policies (`MESH_LANG`); absent: annotations select it. */
  readonly policyLanguage?: Language | undefined;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** What identifies a document of any kind, and what was reported when it was read. */
export type Written = Pick<Resource, 'kind' | 'meta' | 'origin' | 'warnings'>;

/** Where the reference document describes the codes. */
export const REFERENCE = 'docs/reference/messages.md';

/** Documents that a translator derived from others: nobody has written them. */
const DERIVED = 'derived';

/** Pods in these phases receive no requests (Kubernetes PodStatus.phase). */
const ENDED: ReadonlySet<string | undefined> = new Set(['Succeeded', 'Failed']);

export class AnalyzedMesh {
  readonly #input: AnalysisInput;
  /** Pods, WorkloadEntries and connected proxies. */
  readonly workloads = new WorkloadIndex();
  #servicesByLabel: ServicesByLabel = new Map();
  #servicesByParent: ServicesByParent = new Map();
  readonly #caches = new Map<string, unknown>();

  constructor(input: AnalysisInput) {
    this.#input = input;
  }

  get snapshot(): Snapshot {
    return this.#input.snapshot;
  }

  get settings(): ModelSettings {
    return this.snapshot.settings;
  }

  get annotationRules(): ReadonlyMap<string, AnnotationRule> | undefined {
    return this.#input.annotationRules;
  }

  get readsSecrets(): boolean {
    return this.#input.readsSecrets;
  }

  get policyLanguage(): Language | undefined {
    return this.#input.policyLanguage;
  }

  get now(): number {
    return this.#input.now;
  }

  get problems(): readonly ResourceProblem[] {
    return this.#input.problems;
  }

  warningsOf(resource: Written): readonly ResourceWarning[] {
    return [...(resource.warnings ?? []), ...this.#input.warningsOf(keyOf(resource))];
  }

  /** The documents of a kind that somebody has written, in the order of their keys. */
  *documents<K extends Kind>(kind: K): Generator<Resource<K>> {
    for (const [, resource] of this.snapshot.resources(kind).sorted())
      if (resource.origin.source !== DERIVED) yield resource;
  }

  *manifests(...kinds: readonly string[]): Generator<Manifest> {
    for (const manifest of this.#input.manifests) if (kinds.includes(manifest.kind)) yield manifest;
  }

  /** Of all kinds. */
  allManifests(): readonly Manifest[] {
    return this.#input.manifests;
  }

  /** What several documents need of the whole mesh, computed once. */
  *once<T>(name: string, make: () => Generator<undefined, T>): Generator<undefined, T> {
    if (!this.#caches.has(name)) this.#caches.set(name, yield* make());
    return this.#caches.get(name) as T;
  }

  /** Builds the indexes that lookups use; comes before all analyzers. Yields where it may be interrupted. */
  *index(): Generator<undefined, void> {
    yield* this.#indexWorkloads();
    this.#servicesByLabel = yield* servicesByLabel(this);
    this.#servicesByParent = yield* servicesByParent(this.snapshot);
  }

  *#indexWorkloads(): Generator<undefined, void> {
    for (const pod of this.documents('Pod')) {
      yield undefined;
      if (ENDED.has(pod.content.status?.phase)) continue;
      const { namespace, name, labels } = pod.meta;
      const isOutside = !isInMesh(pod, this.namespaceLabels(namespace));
      this.workloads.add({ namespace, name, labels, isPod: true, ...(isOutside ? { isOutside } : {}) });
    }
    for (const { meta, content } of this.documents('WorkloadEntry')) {
      yield undefined;
      const labels = { ...meta.labels, ...content.labels };
      this.workloads.add({ namespace: meta.namespace, name: meta.name, labels });
    }
    for (const proxy of this.#input.proxies) {
      yield undefined;
      this.workloads.add(proxy);
    }
  }

  /** The Services that select Pods with these labels. */
  servicesOf(namespace: string, labels: Readonly<Record<string, string>>): readonly Resource<'Service'>[] {
    const candidates = Object.entries(labels).flatMap(
      ([key, value]) => this.#servicesByLabel.get(`${namespace}/${key}=${value}`) ?? [],
    );
    return candidates.filter(({ content }) => labelsMatch(content.spec.selector ?? {}, labels));
  }

  namespaceLabels(namespace: string): Readonly<Record<string, string>> {
    return this.snapshot.resources('Namespace').get(resourceKey('Namespace', '', namespace))?.meta.labels ?? {};
  }

  /** Which workloads the selector of a Gateway looks among: those of its namespace, or all. */
  gatewayScope({ meta, content }: Resource<'Gateway'>): string {
    return this.settings.scopeGatewayToNamespace || content.ownNamespace === true ? meta.namespace : '';
  }

  /** The full name of a host that a document of a namespace names. */
  hostname(host: string, namespace: string): string {
    return fullHostname(host, namespace, this.settings.domain);
  }

  /** The service of a full host name that clients of a namespace see; of several, one of the namespace itself. */
  serviceOf(hostname: string, namespace: string): Service | undefined {
    for (const pattern of matchingPatterns(canonicalHost(hostname))) {
      const visible = this.snapshot
        .servicesByHost(pattern)
        .filter((service) => isVisible(service.exportTo, service.namespace, namespace));
      const found = visible.find((service) => service.namespace === namespace) ?? visible[0];
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Whether a service that clients of a namespace see has a name below a wildcard (`*.example.com`). */
  hasServiceBelow(wildcard: string, namespace: string): boolean {
    const services = this.#servicesByParent.get(wildcard) ?? [];
    return services.some((service) => isVisible(service.exportTo, service.namespace, namespace));
  }

  /**
   * A finding about a document.
   * @param reveals see `Finding.reveals`
   */
  finding(code: MessageCode, about: Written | Manifest, message: string, reveals: readonly string[] = []): Finding {
    return this.findingOf(code, resourceOf(about), about.origin, message, reveals);
  }

  findingOf(
    code: MessageCode,
    resource: FoundResource,
    origin: ResourceOrigin,
    message: string,
    reveals: readonly string[] = [],
  ): Finding {
    const { level, name } = MESSAGES[code];
    const documentation = `${REFERENCE}#${code.toLowerCase()}-${name.toLowerCase()}`;
    const others = [...new Set(reveals)].filter((namespace) => namespace !== resource.namespace);
    const more = others.length === 0 ? {} : { reveals: others };
    return { code, level, name, message, resource, origin, documentation, ...more };
  }
}

function resourceOf(about: Written | Manifest): FoundResource {
  if ('document' in about) return { kind: about.kind, namespace: about.namespace, name: about.name };
  const { namespace, name } = about.meta;
  return { kind: writtenKind(about.kind), namespace, name };
}

/** Labels as a selector writes them. */
export function selectorText(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .sort()
    .join(',');
}

/** The most names that a message lists. */
const MAX_NAMES = 5;

/** Names in a message, at most some of them. */
export function listed(names: Iterable<string>): string {
  const all = [...new Set(names)].sort();
  const more = all.length - MAX_NAMES;
  return more > 0 ? `${all.slice(0, MAX_NAMES).join(', ')} and ${more} more` : all.join(', ');
}

/**
 * Documents by their namespaces. Findings that name documents of others are made for each namespace by itself:
 * otherwise a document that a viewer may not see would hide the finding about those that the viewer sees.
 */
export function byNamespace<T extends Pick<Written, 'meta'>>(
  documents: Iterable<T>,
): ReadonlyMap<string, readonly T[]> {
  return Map.groupBy(documents, ({ meta }) => meta.namespace);
}

/** `namespace/name` of a document. */
export function nameOf({ meta }: Pick<Written, 'meta'>): string {
  return `${meta.namespace}/${meta.name}`;
}

type ServicesByParent = ReadonlyMap<string, readonly Service[]>;
type ServicesByLabel = ReadonlyMap<string, readonly Resource<'Service'>[]>;

/** Services by the wildcards that match them. */
function* servicesByParent({ services }: Snapshot): Generator<undefined, ServicesByParent> {
  const below = new Map<string, Service[]>();
  for (const [, service] of services.sorted()) {
    yield undefined;
    for (const pattern of [...matchingPatterns(service.hostname), service.hostname]) {
      const known = below.get(pattern);
      if (known === undefined) below.set(pattern, [service]);
      else if (known.at(-1) !== service) known.push(service);
    }
  }
  return below;
}

/** Services by the first label of their selectors. */
function* servicesByLabel(mesh: AnalyzedMesh): Generator<undefined, ServicesByLabel> {
  const index = new Map<string, Resource<'Service'>[]>();
  for (const service of mesh.documents('Service')) {
    yield undefined;
    const [label] = Object.entries(service.content.spec.selector ?? {});
    if (label === undefined) continue;
    const key = `${service.meta.namespace}/${label.join('=')}`;
    const known = index.get(key);
    if (known === undefined) index.set(key, [service]);
    else known.push(service);
  }
  return index;
}
