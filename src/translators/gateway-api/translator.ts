/**
 * The Gateway API as a translator: incremental, from changed documents to what depends on them.
 *
 *   GatewayClass, Gateway ─▶ plan of its listeners ─▶ routes that attach ─▶ hostnames of listeners ─▶ derived documents
 *
 * A computation of one of these stages is repeated when something changed that it read (`documents.ts`), so that a
 * change of one route translates that route and the hostnames that it has or had.
 */
import {
  type AnyResource,
  type Resource,
  type ResourceChange,
  type ResourceKey,
  SERVICE_API_KINDS,
  type ServiceApiKind,
} from '../../resources/index.ts';
import { DerivedDocuments } from '../derived.ts';
import type { Translator, TranslatorOptions } from '../types.ts';
import { AttachedRoutes, type HostAddress } from './attached-routes.ts';
import { type Policy, type ServiceName, serviceDocuments } from './backend-tls.ts';
import { BackendUsers } from './backend-users.ts';
import { Documents, type Fact } from './documents.ts';
import { classStatus, gatewayStatus } from './gateway-status.ts';
import { type GatewayPlan, planFact, planGateway } from './listeners.ts';
import { policyAncestors } from './policy-status.ts';
import { isRouteKind, type RouteResource, translateRoute } from './routes.ts';
import { hostDocuments, listenerDocuments } from './served-hosts.ts';
import type { DesiredStatus, StatusContent } from './status-types.ts';

/** The controller name in GatewayClasses that are served. */
export const CONTROLLER_NAME = 'mesh.io/gateway-controller';

export interface GatewayApiOptions extends TranslatorOptions {
  /** Default: {@link CONTROLLER_NAME}. */
  readonly controllerName?: string;
}

/** What is to be computed again, by the key of its document. */
interface Dirty {
  readonly gateways: Set<ResourceKey>;
  readonly routes: Set<ResourceKey>;
  /** Of Gateways, GatewayClasses and policies; those of routes are computed with the route. */
  readonly statuses: Set<ResourceKey>;
  /** `namespace/name` of Services. */
  readonly services: Set<ServiceName>;
}

export class GatewayApiTranslator implements Translator {
  readonly #domain: string;
  readonly #controllerName: string;
  readonly #documents = new Documents();
  readonly #plans = new Map<string, GatewayPlan>();
  readonly #attached = new AttachedRoutes();
  readonly #users = new BackendUsers();
  readonly #derived = new DerivedDocuments();
  readonly #statuses = new Map<ResourceKey, DesiredStatus>();
  #changedStatuses = new Set<ResourceKey>();

  constructor({ domain, controllerName = CONTROLLER_NAME }: GatewayApiOptions) {
    this.#domain = domain;
    this.#controllerName = controllerName;
  }

  apply(changes: readonly ResourceChange[]): readonly ResourceChange[] {
    const facts = changes.flatMap(({ key, after }) => this.#documents.put(key, after));
    if (facts.length === 0) return [];
    const dirty: Dirty = { gateways: new Set(), routes: new Set(), statuses: new Set(), services: new Set() };
    for (const fact of facts) this.#mark(fact, dirty);
    for (const { key, after } of changes) this.#markOwn(key, after, dirty);
    for (const key of dirty.gateways) this.#updateGateway(key, dirty);
    for (const key of dirty.routes) this.#updateRoute(key, dirty);
    for (const service of dirty.services) this.#updateService(service, dirty);
    for (const host of this.#attached.takeChangedHosts()) this.#updateHost(host);
    for (const gateway of this.#attached.takeChangedGateways()) dirty.statuses.add(`KubernetesGateway/${gateway}`);
    for (const key of dirty.statuses) this.#updateStatus(key);
    return this.#derived.take();
  }

  /** The desired statuses of all objects that this controller is responsible for. */
  statuses(): ReadonlyMap<ResourceKey, DesiredStatus> {
    return this.#statuses;
  }

  /** Keys whose desired status changed since the last call, or which have none any more. */
  takeStatusChanges(): ReadonlySet<ResourceKey> {
    const changed = this.#changedStatuses;
    this.#changedStatuses = new Set();
    return changed;
  }

  /** Marks the computations that read a fact. */
  #mark(fact: Fact, dirty: Dirty): void {
    for (const reader of this.#documents.readersOf(fact)) {
      const colon = reader.indexOf(':');
      const [stage, key] = [reader.slice(0, colon), reader.slice(colon + 1)];
      if (stage === 'gateway') dirty.gateways.add(key);
      else if (stage === 'route') dirty.routes.add(key);
      else if (stage === 'service') dirty.services.add(key);
      else dirty.statuses.add(key);
    }
  }

  /** Marks the computations of a changed document itself. */
  #markOwn(key: ResourceKey, resource: AnyResource | undefined, dirty: Dirty): void {
    const kind = kindOf(key);
    if (kind === undefined) return;
    if (kind === 'KubernetesGateway') dirty.gateways.add(key);
    else if (isRouteKind(kind)) dirty.routes.add(key);
    else if (kind === 'BackendTLSPolicy') {
      const policy = resource?.kind === kind ? (resource as Policy) : undefined;
      for (const service of this.#users.setPolicy(key, policy)) dirty.services.add(service);
    }
    if (kind === 'KubernetesGateway' || kind === 'GatewayClass' || kind === 'BackendTLSPolicy') dirty.statuses.add(key);
  }

  #updateGateway(key: ResourceKey, dirty: Dirty): void {
    const { namespace, name } = namesOf(key);
    const id = `${namespace}/${name}`;
    const before = this.#plans.get(id);
    const plan = this.#documents.reading(`gateway:${key}`, () => {
      const gateway = this.#documents.get('KubernetesGateway', namespace, name);
      const known = gateway && this.#documents.get('GatewayClass', '', gateway.content.gatewayClassName);
      return known && this.#isOurs(known) ? planGateway(this.#documents, gateway, known) : undefined;
    });
    dirty.statuses.add(key);
    if (JSON.stringify(before) === JSON.stringify(plan)) return;
    if (plan === undefined) this.#plans.delete(id);
    else this.#plans.set(id, plan);
    this.#mark(planFact(namespace, name), dirty);
    this.#attached.gatewayChanged(id, before, plan);
    const names = new Set([...(before?.listeners ?? []), ...(plan?.listeners ?? [])].map((listener) => listener.name));
    for (const each of names) {
      const listener = plan?.listeners.find((candidate) => candidate.name === each);
      const documents =
        plan === undefined || listener === undefined ? [] : listenerDocuments({ gateway: plan, listener });
      this.#derived.replace(`listener/${id}/${each}`, documents);
    }
  }

  #isOurs({ content }: Resource<'GatewayClass'>): boolean {
    return content.controllerName === this.#controllerName;
  }

  #updateRoute(key: ResourceKey, dirty: Dirty): void {
    const route = this.#documents.reading(`route:${key}`, () => {
      const { kind, namespace, name } = namesOf(key);
      const found = isRouteKind(kind) ? this.#documents.get(kind, namespace, name) : undefined;
      if (found === undefined) return undefined;
      // The resource is of one of the kinds.
      const resource = found as RouteResource;
      const translated = translateRoute(key, resource, {
        documents: this.#documents,
        domain: this.#domain,
        controllerName: this.#controllerName,
        planOf: (ofNamespace, gateway) => this.#plans.get(`${ofNamespace}/${gateway}`),
      });
      return { resource, translated };
    });
    const translated = route?.translated;
    this.#attached.replace(key, translated);
    for (const service of this.#users.setRoute(key, translated)) dirty.services.add(service);
    const parents = translated?.parents ?? [];
    this.#setStatus(key, route?.resource, parents.length === 0 ? undefined : { parents });
  }

  /** What gateways do with the connections to a Service, and the statuses of its policies. */
  #updateService(service: ServiceName, dirty: Dirty): void {
    const policies = this.#users.policiesOf(service);
    const grpcPorts = this.#users.grpcPortsOf(service);
    const owner = `service/${service}`;
    for (const key of this.#users.policyKeysOf(service)) dirty.statuses.add(key);
    if (policies.length === 0 && grpcPorts.size === 0) {
      this.#documents.forget(`service:${service}`);
      this.#derived.replace(owner, []);
      return;
    }
    const documents = this.#documents.reading(`service:${service}`, () =>
      serviceDocuments({ documents: this.#documents, domain: this.#domain, service, policies, grpcPorts }),
    );
    this.#derived.replace(owner, documents);
  }

  #updateHost({ gateway, listener: name, hostname }: HostAddress): void {
    const plan = this.#plans.get(gateway);
    const listener = plan?.listeners.find((each) => each.name === name);
    const routes = this.#attached.routesOf({ gateway, listener: name, hostname });
    const owner = `host/${gateway}/${name}/${hostname}`;
    if (plan === undefined || listener === undefined || (routes.length === 0 && listener.hostname !== hostname)) {
      this.#derived.replace(owner, []);
    } else this.#derived.replace(owner, hostDocuments({ gateway: plan, listener }, hostname, routes));
  }

  #updateStatus(key: ResourceKey): void {
    const { kind, namespace, name } = namesOf(key);
    if (kind === 'GatewayClass') {
      const resource = this.#documents.get('GatewayClass', '', name);
      this.#setStatus(key, resource, resource && this.#isOurs(resource) ? classStatus(resource) : undefined);
      return;
    }
    if (kind === 'BackendTLSPolicy') {
      this.#updatePolicyStatus(key, namespace, name);
      return;
    }
    const plan = this.#plans.get(`${namespace}/${name}`);
    const found = this.#documents.reading(`status:${key}`, () => {
      const gateway = this.#documents.get('KubernetesGateway', namespace, name);
      if (gateway === undefined || plan === undefined) return undefined;
      const attachedRoutes = (listener: string) => this.#attached.count(`${namespace}/${name}`, listener);
      return { gateway, status: gatewayStatus({ documents: this.#documents, gateway, plan, attachedRoutes }) };
    });
    this.#setStatus(key, found?.gateway, found?.status);
  }

  #updatePolicyStatus(key: ResourceKey, namespace: string, name: string): void {
    const found = this.#documents.reading(`status:${key}`, () => {
      const policy = this.#documents.get('BackendTLSPolicy', namespace, name);
      if (policy === undefined) return undefined;
      return { policy, ancestors: policyAncestors(this.#documents, this.#users, policy, this.#controllerName) };
    });
    const ancestors = found?.ancestors ?? [];
    this.#setStatus(key, found?.policy, ancestors.length === 0 ? undefined : { ancestors });
  }

  #setStatus(key: ResourceKey, resource: AnyResource | undefined, status: StatusContent | undefined): void {
    const before = this.#statuses.get(key);
    const kind = kindOf(key);
    if (resource === undefined || status === undefined || kind === undefined) {
      if (this.#statuses.delete(key)) this.#changedStatuses.add(key);
      return;
    }
    const { meta, origin } = resource;
    const { namespace, name, generation } = meta;
    const after: DesiredStatus = {
      key,
      kind,
      namespace,
      name,
      ...(origin.uid === undefined ? {} : { uid: origin.uid }),
      ...(generation === undefined ? {} : { generation }),
      status,
    };
    if (JSON.stringify(before) === JSON.stringify(after)) return;
    this.#statuses.set(key, after);
    this.#changedStatuses.add(key);
  }
}

function kindOf(key: ResourceKey): ServiceApiKind | undefined {
  const name = key.slice(0, key.indexOf('/'));
  return SERVICE_API_KINDS.find((kind) => kind === name);
}

function namesOf(key: ResourceKey): { readonly kind: string; readonly namespace: string; readonly name: string } {
  const [kind = '', namespace = '', name = ''] = key.split('/');
  return { kind, namespace, name };
}
