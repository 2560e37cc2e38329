/**
 * The Gateway API as a translator: incremental, from changed documents to what depends on them.
 *
 *   GatewayClass, Gateway ─▶ plan of its listeners ─▶ routes that attach ─┬▶ hostnames of listeners ─▶ documents
 *   Service, ReferenceGrant ─▶ backends ─▶ compiled rules of routes ──────┘
 *
 * A computation of one of these stages is repeated when something that it has read changes (`documents.ts`), so that a
 * change of one route only translates that route and the hostnames that it has or had. Rules do not depend on where
 * their route is attached, so they are not compiled again when a Gateway changes.
 */
import {
  type AnyResource,
  type Kind,
  type ObjectAccess,
  type Resource,
  type ResourceChange,
  type ResourceKey,
  SERVICE_API_KINDS,
  type ServiceApiKind,
} from '../../resources/index.ts';
import { DerivedDocuments } from '../derived.ts';
import type { Translator, TranslatorOptions } from '../types.ts';
import { type Policy, type ServiceName, serviceDocuments } from './backends/backend-tls.ts';
import { Backends } from './backends/backends.ts';
import { Documents, type Fact } from './documents.ts';
import { type GatewayPlan, planFact, planGateway } from './listeners/listeners.ts';
import { DEFAULT_REVISION, revisionOf } from './revisions.ts';
import { AttachedRoutes, type HostAddress } from './routes/attached-routes.ts';
import { attach, type ParentResult } from './routes/attachments.ts';
import { type Compiled, compile, type RouteResource } from './routes/compiled.ts';
import { RouteConflicts } from './routes/route-conflicts.ts';
import { isRouteKind, parentStatuses, translateRoute } from './routes/routes.ts';
import { hostDocuments, listenerDocuments } from './routes/served-hosts.ts';
import type { DesiredStatus, ServedListener, StatusContent } from './status-types.ts';
import { BackendUsers } from './statuses/backend-users.ts';
import { classStatus, gatewayStatus, servedListeners } from './statuses/gateway-status.ts';
import { policyAncestors } from './statuses/policy-status.ts';

/** The controller name in GatewayClasses that are served. */
export const CONTROLLER_NAME = 'mesh.io/gateway-controller';

export interface GatewayApiOptions extends TranslatorOptions {
  /** Default: {@link CONTROLLER_NAME}. */
  readonly controllerName?: string;
  /** Gateways of other revisions are not served. Default: `default`, the revision of Gateways without a label. */
  readonly revision?: string;
  /**
   * Whether Secrets and ConfigMaps are read by name, as far as the program has permission: `setAccess` then reports the
   * access to each name. By default all are read.
   */
  readonly areReadByName?: boolean;
  /** Whether gateways read the Secrets of their own namespace themselves. Default: no. */
  readonly gatewaysReadSecrets?: boolean;
}

/** The computations to repeat, by the key of their document. */
interface Dirty {
  readonly gateways: Set<ResourceKey>;
  /** Identifiers of references to backends. */
  readonly backends: Set<string>;
  /** Routes whose attachment is computed again. */
  readonly routes: Set<ResourceKey>;
  /** Routes whose rules are computed again. */
  readonly rules: Set<ResourceKey>;
  /** Statuses of Gateways, GatewayClasses and policies; statuses of routes are computed with the routes. */
  readonly statuses: Set<ResourceKey>;
  /** `namespace/name` of Services. */
  readonly services: Set<ServiceName>;
}

/** A route with a parent that is a Gateway of this controller. */
interface CandidateRoute {
  readonly resource: RouteResource;
  readonly parents: readonly ParentResult[];
}

export class GatewayApiTranslator implements Translator {
  readonly #domain: string;
  readonly #controllerName: string;
  readonly #revision: string;
  readonly #documents: Documents;
  readonly #gatewaysReadSecrets: boolean;
  readonly #backends: Backends;
  readonly #plans = new Map<string, GatewayPlan>();
  readonly #routes = new Map<ResourceKey, CandidateRoute>();
  readonly #rules = new Map<ResourceKey, Compiled>();
  readonly #conflicts = new RouteConflicts();
  readonly #attached = new AttachedRoutes();
  readonly #users = new BackendUsers();
  readonly #derived = new DerivedDocuments();
  readonly #statuses = new Map<ResourceKey, DesiredStatus>();
  #changedStatuses = new Set<ResourceKey>();
  /** Facts of `setAccess` since the last `apply`. */
  #changedAccess = new Set<Fact>();

  constructor(options: GatewayApiOptions) {
    const { domain, controllerName = CONTROLLER_NAME, revision = DEFAULT_REVISION } = options;
    this.#domain = domain;
    this.#documents = new Documents(options.areReadByName);
    this.#gatewaysReadSecrets = options.gatewaysReadSecrets ?? false;
    this.#backends = new Backends(this.#documents, domain);
    this.#controllerName = controllerName;
    this.#revision = revision;
  }

  apply(changes: readonly ResourceChange[]): readonly ResourceChange[] {
    const ofAccess = this.#changedAccess;
    this.#changedAccess = new Set();
    const facts = [...ofAccess, ...changes.flatMap(({ key, after }) => this.#documents.put(key, after))];
    if (facts.length === 0) return [];
    const dirty = nothingDirty();
    for (const fact of facts) this.#mark(fact, dirty);
    for (const { key, after } of changes) this.#markOwn(key, after, dirty);
    for (const key of dirty.gateways) this.#updateGateway(key, dirty);
    for (const id of dirty.backends) {
      const fact = this.#backends.update(id);
      if (fact !== undefined) this.#mark(fact, dirty);
    }
    for (const key of dirty.routes) this.#attachRoute(key);
    for (const key of dirty.rules) this.#rules.delete(key);
    for (const key of new Set([...dirty.routes, ...dirty.rules, ...this.#conflicts.takeChanged()]))
      this.#updateRoute(key, dirty);
    this.#backends.forget(this.#documents.takeUnread());
    for (const service of dirty.services) this.#updateService(service, dirty);
    for (const host of this.#attached.takeChangedHosts()) this.#updateHost(host);
    for (const gateway of this.#attached.takeChangedGateways()) dirty.statuses.add(`KubernetesGateway/${gateway}`);
    for (const key of dirty.statuses) this.#updateStatus(key);
    return this.#derived.take();
  }

  /** Sets the access to the objects of a name, from the next `apply` on. @returns whether anything changed */
  setAccess(kind: Kind, name: string, access: ObjectAccess): boolean {
    const fact = this.#documents.setAccess(kind, name, access);
    if (fact !== undefined) this.#changedAccess.add(fact);
    return fact !== undefined;
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

  /** Whether a Gateway of this controller is served by another revision of the control plane. */
  isOfOtherRevision(namespace: string, name: string): boolean {
    const gateway = this.#documents.get('KubernetesGateway', namespace, name);
    if (gateway === undefined) return false;
    const known = this.#documents.get('GatewayClass', '', gateway.content.gatewayClassName);
    if (known === undefined || !this.#isOurs(known)) return false;
    return revisionOf(this.#documents, gateway) !== this.#revision;
  }

  #mark(fact: Fact, dirty: Dirty): void {
    for (const reader of this.#documents.readersOf(fact)) {
      const colon = reader.indexOf(':');
      const [stage, key] = [reader.slice(0, colon), reader.slice(colon + 1)];
      if (stage === 'gateway') dirty.gateways.add(key);
      else if (stage === 'backend') dirty.backends.add(key);
      else if (stage === 'route') dirty.routes.add(key);
      else if (stage === 'rules') dirty.rules.add(key);
      else if (stage === 'service') dirty.services.add(key);
      else dirty.statuses.add(key);
    }
  }

  #markOwn(key: ResourceKey, resource: AnyResource | undefined, dirty: Dirty): void {
    const kind = parseKind(key);
    if (kind === undefined) return;
    if (kind === 'KubernetesGateway') dirty.gateways.add(key);
    else if (isRouteKind(kind)) {
      dirty.routes.add(key);
      dirty.rules.add(key);
    } else if (kind === 'BackendTLSPolicy') {
      const policy = resource?.kind === kind ? (resource as Policy) : undefined;
      for (const service of this.#users.setPolicy(key, policy)) dirty.services.add(service);
    }
    if (kind === 'KubernetesGateway' || kind === 'GatewayClass' || kind === 'BackendTLSPolicy') dirty.statuses.add(key);
  }

  #updateGateway(key: ResourceKey, dirty: Dirty): void {
    const { namespace, name } = parseKey(key);
    const id = `${namespace}/${name}`;
    const before = this.#plans.get(id);
    const plan = this.#documents.reading(`gateway:${key}`, () => {
      const gateway = this.#documents.get('KubernetesGateway', namespace, name);
      const known = gateway && this.#documents.get('GatewayClass', '', gateway.content.gatewayClassName);
      const isServed = known && this.#isOurs(known) && revisionOf(this.#documents, gateway) === this.#revision;
      return isServed ? planGateway(this.#documents, gateway, known, this.#gatewaysReadSecrets) : undefined;
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

  /** Computes the listeners that a route could attach to, regardless of other routes. */
  #attachRoute(key: ResourceKey): void {
    const candidate = this.#documents.reading(`route:${key}`, (): CandidateRoute | undefined => {
      const { kind, namespace, name } = parseKey(key);
      const found = isRouteKind(kind) ? this.#documents.get(kind, namespace, name) : undefined;
      if (found === undefined) return undefined;
      // The kind in the key determines the type of the resource.
      const resource = found as RouteResource;
      const { meta, content } = resource;
      const hostnames = 'hostnames' in content ? content.hostnames : undefined;
      const attachable = { kind: resource.kind, meta, parentRefs: content.parentRefs ?? [], hostnames };
      const planOf = (ofNamespace: string, gateway: string) => this.#plans.get(`${ofNamespace}/${gateway}`);
      const parents = attach(this.#documents, attachable, planOf);
      return parents.length === 0 ? undefined : { resource, parents };
    });
    const { kind, meta } = candidate?.resource ?? {};
    const route = kind && meta && { kind, created: meta.created, route: `${meta.namespace}/${meta.name}` };
    this.#conflicts.set(key, route, candidate?.parents ?? []);
    if (candidate === undefined) this.#routes.delete(key);
    else this.#routes.set(key, candidate);
  }

  #updateRoute(key: ResourceKey, dirty: Dirty): void {
    const candidate = this.#routes.get(key);
    if (candidate === undefined) {
      this.#rules.delete(key);
      this.#documents.forget(`rules:${key}`);
      this.#attached.replace(key, undefined);
      for (const service of this.#users.setRoute(key, undefined)) dirty.services.add(service);
      this.#setStatus(key, undefined, undefined);
      return;
    }
    const { resource } = candidate;
    const compiled = this.#compiled(key, resource);
    const parents = this.#conflicts.accepted(key, candidate.parents);
    const translated = translateRoute(key, resource, parents, compiled);
    this.#attached.replace(key, translated);
    for (const service of this.#users.setRoute(key, translated)) dirty.services.add(service);
    this.#setStatus(key, resource, { parents: parentStatuses(resource, parents, compiled, this.#controllerName) });
  }

  #compiled(key: ResourceKey, route: RouteResource): Compiled {
    const known = this.#rules.get(key);
    if (known !== undefined) return known;
    const context = { backends: this.#backends, kind: route.kind, namespace: route.meta.namespace };
    const compiled = this.#documents.reading(`rules:${key}`, () => compile(route, context));
    this.#rules.set(key, compiled);
    return compiled;
  }

  /** Updates how gateways connect to a Service, and the statuses of its policies. */
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
    if (plan === undefined || listener === undefined || (routes === undefined && listener.hostname !== hostname)) {
      this.#derived.replace(owner, []);
    } else this.#derived.replace(owner, hostDocuments({ gateway: plan, listener }, hostname, routes));
  }

  #updateStatus(key: ResourceKey): void {
    const { kind, namespace, name } = parseKey(key);
    if (kind === 'GatewayClass') {
      const resource = this.#documents.get('GatewayClass', '', name);
      const isWritten = resource && this.#isOurs(resource) && revisionOf(this.#documents, resource) === this.#revision;
      this.#setStatus(key, resource, isWritten ? classStatus(resource) : undefined);
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
    this.#setStatus(key, found?.gateway, found?.status, plan && servedListeners(plan));
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

  #setStatus(
    key: ResourceKey,
    resource: AnyResource | undefined,
    status: StatusContent | undefined,
    listeners?: readonly ServedListener[],
  ): void {
    const before = this.#statuses.get(key);
    const kind = parseKind(key);
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
      ...(listeners === undefined ? {} : { listeners }),
    };
    if (JSON.stringify(before) === JSON.stringify(after)) return;
    this.#statuses.set(key, after);
    this.#changedStatuses.add(key);
  }
}

function nothingDirty(): Dirty {
  return {
    gateways: new Set(),
    backends: new Set(),
    routes: new Set(),
    rules: new Set(),
    statuses: new Set(),
    services: new Set(),
  };
}

function parseKind(key: ResourceKey): ServiceApiKind | undefined {
  const name = key.slice(0, key.indexOf('/'));
  return SERVICE_API_KINDS.find((kind) => kind === name);
}

function parseKey(key: ResourceKey): { readonly kind: string; readonly namespace: string; readonly name: string } {
  const [kind = '', namespace = '', name = ''] = key.split('/');
  return { kind, namespace, name };
}
