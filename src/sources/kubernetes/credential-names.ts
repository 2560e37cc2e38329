/**
 * The names of the Secrets and ConfigMaps to which other resources refer as credentials or certificate authorities.
 * Only these are read from a cluster.
 */
import { isDnsSubdomain } from '../../core/dns-names.ts';
import { AUTHORITIES_SUFFIX } from '../../core/tls/tls-secrets.ts';
import type { AnyResource, Kind, Resource, ResourceEvent, ResourceKey, ResourceList } from '../../resources/index.ts';

/** For each kind that can name credentials, how to find the names. */
type NamesIn = ReadonlyMap<Kind, (resource: AnyResource) => readonly string[]>;

/** Fields that name one or several credentials, wherever they are in these kinds. */
const FIELDS: ReadonlySet<string> = new Set([
  'credentialName',
  'credentialNames',
  'caCertCredentialName',
  'secretName',
]);

/** Secrets: credentials of Gateways, DestinationRules and Ingresses, certificates of the Gateway API. */
export const SECRETS_IN: NamesIn = new Map<Kind, (resource: AnyResource) => readonly string[]>([
  ['DestinationRule', secretsOf],
  ['Gateway', secretsOf],
  ['Ingress', secretsOf],
  ['KubernetesGateway', (resource) => referencesIn(resource, 'Secret', ['certificateRefs', 'clientCertificateRef'])],
]);

/** ConfigMaps: certificate authorities of the Gateway API. */
export const CONFIG_MAPS_IN: NamesIn = new Map<Kind, (resource: AnyResource) => readonly string[]>([
  ['BackendTLSPolicy', (resource) => referencesIn(resource, 'ConfigMap', ['caCertificateRefs'])],
  ['KubernetesGateway', (resource) => referencesIn(resource, 'ConfigMap', ['caCertificateRefs'])],
]);

interface Names {
  readonly names: readonly string[];
  /** The resource that names them. */
  readonly resource: AnyResource;
}

/**
 * Decides which resources with a class the mesh serves. Other controllers serve the other resources, whose credentials
 * are not needed. The result for a resource may change with its class. If a function is absent, the mesh serves all.
 */
export interface ServedByMesh {
  readonly servesIngress?: (ingress: Resource<'Ingress'>) => boolean;
  readonly servesGateway?: (gateway: Resource<'KubernetesGateway'>) => boolean;
}

/** The kinds of classes, and of the resources that use them. */
const CLASSES: ReadonlyMap<Kind, Kind> = new Map([
  ['GatewayClass', 'KubernetesGateway'],
  ['IngressClass', 'Ingress'],
]);

export class CredentialNames {
  readonly #namesIn: NamesIn;
  readonly #served: ServedByMesh;
  readonly #byResource = new Map<ResourceKey, Names>();

  constructor(namesIn: NamesIn = SECRETS_IN, served: ServedByMesh = {}) {
    this.#namesIn = namesIn;
    this.#served = served;
  }

  /** @returns whether any event may change which credentials are named */
  apply(events: readonly ResourceEvent[]): boolean {
    let noted = false;
    for (const event of events) noted = this.#note(event) || noted;
    return noted;
  }

  /** @returns whether the list is of a kind that names credentials */
  replace({ events, kinds, namespace }: ResourceList): boolean {
    if (kinds !== undefined && !kinds.some((kind) => this.#decides(kind))) return false;
    // The last good version of a refused document stays in force.
    const listed = new Set(events.map((event) => (event.type === 'set' ? '' : event.problem.key)));
    for (const key of this.#byResource.keys()) {
      const [kind, within] = key.split('/');
      const isOfList = kinds?.some((each) => each === kind) !== false && (namespace ?? within) === within;
      if (isOfList && !listed.has(key)) this.#byResource.delete(key);
    }
    this.apply(events);
    return true;
  }

  /** How many are named. */
  get count(): number {
    return new Set([...this.#byNamespace().values()].flatMap((names) => [...names])).size;
  }

  /**
   * At most `limit` names, in order. Namespaces take turns, so that a namespace with many names does not displace those
   * of others. Within a namespace, Secrets that are followed already come first, so that a new name does not displace
   * them.
   */
  choose(limit: number, isFollowed: (name: string) => boolean): readonly string[] {
    const queues = [...this.#byNamespace().values()].map((names) =>
      [...names].sort((a, b) => Number(isFollowed(b)) - Number(isFollowed(a)) || (a < b ? -1 : 1)),
    );
    const chosen = new Set<string>();
    const longest = Math.max(0, ...queues.map((names) => names.length));
    for (let turn = 0; turn < longest; turn += 1) {
      for (const names of queues) {
        const name = names[turn];
        if (name !== undefined && chosen.size < limit) chosen.add(name);
      }
    }
    return [...chosen].sort();
  }

  /** Names by the namespace of the resources that name them, in the order of the namespaces. */
  #byNamespace(): ReadonlyMap<string, ReadonlySet<string>> {
    const found = new Map<string, Set<string>>();
    for (const [key, { names, resource }] of this.#byResource) {
      if (!this.#serves(resource)) continue;
      const namespace = key.split('/')[1] ?? '';
      const known = found.get(namespace) ?? new Set<string>();
      for (const name of names) known.add(name);
      found.set(namespace, known);
    }
    return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  #serves(resource: AnyResource): boolean {
    const { servesIngress, servesGateway } = this.#served;
    if (resource.kind === 'Ingress') return servesIngress?.(resource) !== false;
    return resource.kind !== 'KubernetesGateway' || servesGateway?.(resource) !== false;
  }

  /** Whether resources of a kind name any, or decide which resources are served. */
  #decides(kind: Kind): boolean {
    const decided = CLASSES.get(kind);
    return this.#namesIn.has(kind) || (decided !== undefined && this.#namesIn.has(decided));
  }

  #note(event: ResourceEvent): boolean {
    if (event.type === 'delete') {
      const isClass = [...CLASSES.keys()].some((kind) => event.key.startsWith(`${kind}/`) && this.#decides(kind));
      return this.#byResource.delete(event.key) || isClass;
    }
    if (event.type !== 'set') return false;
    const { kind, meta } = event.resource;
    const namesIn = this.#namesIn.get(kind);
    if (namesIn === undefined) return this.#decides(kind);
    const key = `${kind}/${meta.namespace}/${meta.name}`;
    const names = namesIn(event.resource);
    if (names.length > 0) this.#byResource.set(key, { names, resource: event.resource });
    return names.length > 0 || this.#byResource.delete(key);
  }
}

function secretsOf({ content }: AnyResource): string[] {
  const written: string[] = [];
  collect(content, written);
  return written.flatMap((credential) => {
    // `kubernetes://namespace/name` in full.
    const name = credential.slice(credential.lastIndexOf('/') + 1);
    const base = name.endsWith(AUTHORITIES_SUFFIX) ? name.slice(0, -AUTHORITIES_SUFFIX.length) : name;
    return isDnsSubdomain(base) ? [base, `${base}${AUTHORITIES_SUFFIX}`] : [];
  });
}

/** The names of references to objects of this kind in the core group, in fields of these names. */
function referencesIn({ content }: AnyResource, kind: string, fields: readonly string[]): readonly string[] {
  const found: string[] = [];
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    for (const [field, inner] of Object.entries(value)) {
      if (!fields.includes(field)) visit(inner);
      else for (const each of Array.isArray(inner) ? inner : [inner]) found.push(...referenceName(each, kind));
    }
  };
  visit(content);
  return found;
}

function referenceName(reference: unknown, kind: string): readonly string[] {
  if (typeof reference !== 'object' || reference === null || !('name' in reference)) return [];
  const { name } = reference;
  const group = 'group' in reference ? reference.group : '';
  const of = 'kind' in reference ? reference.kind : kind;
  return group === '' && of === kind && typeof name === 'string' && isDnsSubdomain(name) ? [name] : [];
}

function collect(value: unknown, into: string[]): void {
  if (typeof value !== 'object' || value === null) return;
  for (const [field, inner] of Object.entries(value)) {
    if (!FIELDS.has(field)) collect(inner, into);
    else for (const name of Array.isArray(inner) ? inner : [inner]) if (typeof name === 'string') into.push(name);
  }
}
