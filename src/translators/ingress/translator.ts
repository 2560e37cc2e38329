/**
 * Translates Ingresses: to one Gateway for all of them, and to one VirtualService for each host. Gateways with the
 * label of the mesh configuration serve them, only in the namespace of ORCH_INGRESS_NS. Certificates are Secrets of
 * that namespace, as for any other Gateway.
 */
import {
  type AnyResource,
  type ContentOf,
  type GatewayServer,
  keyOf,
  type Resource,
  type ResourceChange,
  type ResourceKey,
  type ResourceWarning,
  resourceKey,
  type ServerTlsSettings,
} from '../../resources/index.ts';
import { DerivedDocuments, deriveResource } from '../derived.ts';
import type { Translator, TranslatorOptions } from '../types.ts';
import { type ClassOf, gatewaySelector, gatewayService, type IngressSettings, isServed } from './classes.ts';
import { ANY_HOST, hostNames, hostRoutes, type RouteInputs } from './routes.ts';
import { gatewayAddresses, type IngressStatus, IngressStatusTable } from './statuses.ts';
import { ingressWarnings } from './warnings.ts';

type Ingress = Resource<'Ingress'>;

export interface IngressOptions extends TranslatorOptions {
  /** The namespace of the gateways. */
  readonly namespace: string;
  /** A document in force. A later change of it is among the changes that are applied. */
  readonly resource: (key: ResourceKey) => AnyResource | undefined;
  /** Called with a served Ingress that has warnings, when they have changed. */
  readonly onWarnings: (key: ResourceKey, ingress: Resource<'Ingress'>) => void;
}

/**
 * The creation time of all that is derived: later than that of any document. Anyone who may create an Ingress can name
 * any host, so Gateways and virtual services take precedence for connections, ports and equal paths.
 */
const AFTER_ALL = Number.MAX_SAFE_INTEGER;
const GATEWAY = 'ingress~';

export class IngressTranslator implements Translator {
  readonly #namespace: string;
  readonly #inputs: RouteInputs;
  readonly #documents = new DerivedDocuments();
  #settings: IngressSettings | undefined;
  #configured = false;
  /** All Ingresses in force, including those of other classes. */
  readonly #ingresses = new Map<ResourceKey, Ingress>();
  readonly #classOf: ClassOf;
  /** The served Ingresses by host. */
  readonly #byHost = new Map<string, Set<ResourceKey>>();
  readonly #served = new Map<ResourceKey, readonly string[]>();
  /** Hosts whose routes name a port of a Service. */
  readonly #hostsByService = new Map<ResourceKey, Set<string>>();
  readonly #servicesByHost = new Map<string, readonly ResourceKey[]>();
  readonly #onWarnings: IngressOptions['onWarnings'];
  /** The warnings about served Ingresses as strings, so that changes are noticed. */
  readonly #warnings = new Map<ResourceKey, string>();
  #gatewayChanged = false;
  readonly #resource: IngressOptions['resource'];
  readonly #statuses = new IngressStatusTable();

  constructor({ namespace, domain, resource, onWarnings }: IngressOptions) {
    this.#namespace = namespace;
    this.#resource = resource;
    this.#onWarnings = onWarnings;
    this.#classOf = (name) => {
      const found = resource(resourceKey('IngressClass', '', name));
      return found?.kind === 'IngressClass' ? found : undefined;
    };
    const namedPort = (within: string, name: string, port: string) => {
      const service = resource(resourceKey('Service', within, name));
      if (service?.kind !== 'Service') return undefined;
      return service.content.spec.ports?.find((each) => each.name === port)?.port;
    };
    this.#inputs = { domain, namedPort };
  }

  apply(changes: readonly ResourceChange[]): readonly ResourceChange[] {
    const hosts = new Set<string>();
    let all = this.#configured;
    const serviceKey = this.#serviceKey();
    if (this.#configured && serviceKey !== undefined)
      this.#statuses.setAddresses(gatewayAddresses(this.#resource(serviceKey)));
    this.#configured = false;
    for (const { key, after } of changes) {
      if (key === serviceKey) this.#statuses.setAddresses(gatewayAddresses(after));
      if (key.startsWith('Ingress/')) this.#setIngress(key, after?.kind === 'Ingress' ? after : undefined, hosts);
      else if (key.startsWith('IngressClass/')) all = true;
      else if (key.startsWith('Service/')) for (const host of this.#hostsByService.get(key) ?? []) hosts.add(host);
    }
    if (all) for (const key of this.#ingresses.keys()) this.#serve(key, hosts);
    return this.#derive(hosts);
  }

  /** The mesh configuration in force from the next {@link apply} on. Until the first call no Ingress is served. */
  configure(settings: IngressSettings): void {
    this.#settings = settings;
    this.#configured = true;
  }

  /** Whether the mesh serves an Ingress, with the current classes and mesh configuration. */
  serves(ingress: Ingress): boolean {
    return this.#settings !== undefined && isServed(ingress, this.#classOf, this.#settings);
  }

  /** The desired status of each Ingress that is served. */
  statuses(): { get(key: ResourceKey): IngressStatus | undefined } {
    return this.#statuses;
  }

  /** Keys whose desired status changed since the last call, or which have none any more. */
  takeStatusChanges(): ReadonlySet<ResourceKey> {
    return this.#statuses.takeChanges();
  }

  /** The key of the Service in front of the gateways; undefined until the first configuration. */
  #serviceKey(): ResourceKey | undefined {
    if (this.#settings === undefined) return undefined;
    return resourceKey('Service', this.#namespace, gatewayService(this.#settings));
  }

  #setIngress(key: ResourceKey, ingress: Ingress | undefined, hosts: Set<string>): void {
    if (ingress === undefined) this.#ingresses.delete(key);
    else this.#ingresses.set(key, ingress);
    this.#serve(key, hosts);
  }

  /** Notes whether an Ingress is served, and adds the hosts whose routes it changes. */
  #serve(key: ResourceKey, hosts: Set<string>): void {
    this.#gatewayChanged = true;
    const ingress = this.#ingresses.get(key);
    const before = this.#served.get(key) ?? [];
    const isOne = ingress !== undefined && this.serves(ingress);
    const after = isOne ? hostsOf(ingress) : [];
    for (const host of [...before, ...after]) hosts.add(host);
    for (const host of before) {
      const known = this.#byHost.get(host);
      known?.delete(key);
      if (known?.size === 0) this.#byHost.delete(host);
    }
    for (const host of after) {
      const known = this.#byHost.get(host) ?? new Set();
      known.add(key);
      this.#byHost.set(host, known);
    }
    if (isOne) this.#served.set(key, after);
    else this.#served.delete(key);
    this.#statuses.set(key, isOne ? ingress : undefined);
    this.#warn(key, isOne ? ingress : undefined);
  }

  /**
   * @param ingress undefined if it is not served: its warnings are then not those of this controller
   */
  #warn(key: ResourceKey, ingress: Ingress | undefined): void {
    const warnings: readonly ResourceWarning[] = ingress === undefined ? [] : ingressWarnings(ingress);
    if (ingress === undefined || warnings.length === 0) {
      this.#warnings.delete(key);
      return;
    }
    const text = JSON.stringify(warnings);
    if (this.#warnings.get(key) === text) return;
    this.#warnings.set(key, text);
    this.#onWarnings(key, { ...ingress, warnings });
  }

  #derive(hosts: Set<string>): readonly ResourceChange[] {
    if (hosts.size === 0 && !this.#gatewayChanged) return [];
    // The routes of a host with a wildcard end with those of rules without a host, and change with them.
    if (hosts.has(ANY_HOST)) for (const host of this.#byHost.keys()) if (host.startsWith('*.')) hosts.add(host);
    for (const host of hosts) this.#deriveHost(host);
    if (this.#gatewayChanged) this.#deriveGateway();
    this.#gatewayChanged = false;
    return this.#documents.take();
  }

  #deriveHost(host: string): void {
    const ingresses = this.#ingressesOf(host);
    const [oldest] = ingresses;
    const others = host.startsWith('*.') ? this.#ingressesOf(ANY_HOST) : [];
    this.#followServices(host, oldest === undefined ? [] : [...ingresses, ...others]);
    if (oldest === undefined) {
      this.#documents.replace(host, []);
      return;
    }
    const content: ContentOf<'VirtualService'> = {
      hosts: [host],
      gateways: [`${this.#namespace}/${GATEWAY}`],
      http: [...hostRoutes(host, ingresses, this.#inputs), ...hostRoutes(ANY_HOST, others, this.#inputs)],
      exportTo: ['.'],
    };
    const name = { namespace: this.#namespace, name: `${GATEWAY}${host}`, created: AFTER_ALL };
    this.#documents.replace(host, [deriveResource('VirtualService', name, content, keyOf(oldest))]);
  }

  #ingressesOf(host: string): Ingress[] {
    return [...(this.#byHost.get(host) ?? [])].flatMap((key) => this.#ingresses.get(key) ?? []).sort(byAge);
  }

  #followServices(host: string, ingresses: readonly Ingress[]): void {
    for (const key of this.#servicesByHost.get(host) ?? []) {
      const known = this.#hostsByService.get(key);
      if (known?.delete(host) === true && known.size === 0) this.#hostsByService.delete(key);
    }
    const keys = ingresses.flatMap(servicesOf);
    if (keys.length === 0) this.#servicesByHost.delete(host);
    else this.#servicesByHost.set(host, keys);
    for (const key of keys) {
      const known = this.#hostsByService.get(key) ?? new Set();
      known.add(host);
      this.#hostsByService.set(key, known);
    }
  }

  #deriveGateway(): void {
    const ingresses = [...this.#served.keys()].flatMap((key) => this.#ingresses.get(key) ?? []).sort(byAge);
    const [oldest] = ingresses;
    if (oldest === undefined || this.#settings === undefined) {
      this.#documents.replace(GATEWAY, []);
      return;
    }
    const http: GatewayServer = { port: { number: 80, name: 'http', protocol: 'HTTP' }, hosts: [own(ANY_HOST)] };
    const content: ContentOf<'Gateway'> = {
      selector: gatewaySelector(this.#settings),
      servers: [http, ...ingresses.flatMap(httpsServers)],
      ownNamespace: true,
    };
    const name = { namespace: this.#namespace, name: GATEWAY, created: AFTER_ALL };
    this.#documents.replace(GATEWAY, [deriveResource('Gateway', name, content, keyOf(oldest))]);
  }
}

/** The Services of which an Ingress names a port. */
function servicesOf({ meta, content }: Ingress): ResourceKey[] {
  const paths = content.rules?.flatMap(({ http }) => http?.paths ?? []) ?? [];
  const backends = [...paths.map(({ backend }) => backend), content.defaultBackend];
  return backends.flatMap((backend) =>
    backend?.service?.port?.name === undefined ? [] : [resourceKey('Service', meta.namespace, backend.service.name)],
  );
}

/** The TLS settings of hosts without a Secret. */
const NO_CERTIFICATE: ServerTlsSettings = { mode: 'SIMPLE', closed: 'closes its connections: no secretName' };

/**
 * Hosts of an entry without a Secret have a server too, so that they are not served with the certificate of a wildcard.
 */
function httpsServers({ meta, content }: Ingress): GatewayServer[] {
  return (content.tls ?? []).flatMap(({ hosts, secretName }, index) => {
    const port = { number: 443, name: `https~${meta.namespace}~${meta.name}~${index}`, protocol: 'HTTPS' };
    const names = hostNames(hosts === undefined || hosts.length === 0 ? [ANY_HOST] : hosts);
    // Without hosts, there is no server to add.
    if (names.length === 0 || (!secretName && !hosts?.length)) return [];
    const tls = secretName ? { mode: 'SIMPLE' as const, credentialName: secretName } : NO_CERTIFICATE;
    return [{ port, hosts: names.map(own), tls }];
  });
}

/** A host entry that only accepts virtual services of the Gateway's namespace, which has the derived ones. */
function own(host: string): string {
  return `./${host}`;
}

function hostsOf({ content }: Ingress): readonly string[] {
  const hosts = new Set(hostNames((content.rules ?? []).map(({ host }) => host)));
  if (content.defaultBackend !== undefined) hosts.add(ANY_HOST);
  return [...hosts];
}

/** The oldest first; of equal age, by name. */
function byAge(a: Ingress, b: Ingress): number {
  const [x, y] = [a, b].map(({ meta }) => meta.created ?? 0);
  const age = (x ?? 0) - (y ?? 0);
  return age || (keyOf(a) < keyOf(b) ? -1 : 1);
}
