/** A route as translated: where it attaches, what it does there, and its status. */
import type { Resource, ResourceKey } from '../../resources/index.ts';
import { type Attachment, attach, type ParentResult } from './attachments.ts';
import { type Backend, type BackendContext, resolveBackend } from './backends.ts';
import { type Complaint, condition, verdict } from './conditions.ts';
import type { Documents } from './documents.ts';
import { type GatewayPlan, ROUTE_KINDS, type RouteKind } from './listeners.ts';
import { type CompiledRoute, compileRules } from './rules.ts';
import type { Condition, RouteParentStatus } from './status-types.ts';

export type RouteResource = { [K in RouteKind]: Resource<K> }[RouteKind];

/** Where connections of a TLSRoute or TCPRoute go. */
export interface ConnectionTarget {
  /** Undefined: the share of a backend that cannot be used. */
  readonly backend: Backend | undefined;
  readonly weight: number;
}

export interface TranslatedRoute {
  readonly key: ResourceKey;
  readonly created: number | undefined;
  /** `namespace/name` */
  readonly route: string;
  readonly attachments: readonly Attachment[];
  /** Of HTTPRoute and GRPCRoute. */
  readonly routes: readonly CompiledRoute[];
  /** Of TLSRoute and TCPRoute. */
  readonly targets: readonly ConnectionTarget[];
  /** Backends that get requests or connections. */
  readonly backends: readonly Backend[];
  /** Entries for the Gateways of this controller. */
  readonly parents: readonly RouteParentStatus[];
}

export interface RouteOptions {
  readonly documents: Documents;
  readonly domain: string;
  readonly controllerName: string;
  readonly planOf: (namespace: string, name: string) => GatewayPlan | undefined;
}

export function isRouteKind(kind: string): kind is RouteKind {
  return ROUTE_KINDS.some((each) => each === kind);
}

interface Compiled {
  readonly routes: readonly CompiledRoute[];
  readonly targets: readonly ConnectionTarget[];
  readonly backends: readonly Backend[];
  readonly unsupported: ReadonlyMap<number, Complaint>;
  readonly unresolved: Complaint | undefined;
  readonly ruleCount: number;
}

export function translateRoute(key: ResourceKey, route: RouteResource, options: RouteOptions): TranslatedRoute {
  const { documents, domain, planOf, controllerName } = options;
  const { kind, meta, content } = route;
  const hostnames = 'hostnames' in content ? content.hostnames : undefined;
  const parentRefs = content.parentRefs ?? [];
  const results = attach(documents, { kind, meta, parentRefs, hostnames }, planOf);
  const name = `${meta.namespace}/${meta.name}`;
  const base = { key, created: meta.created, route: name };
  if (results.length === 0) {
    return { ...base, attachments: [], routes: [], targets: [], backends: [], parents: [] };
  }
  const context = { documents, kind, namespace: meta.namespace, domain };
  const compiled = compile(route, context);
  const isRefused = compiled.ruleCount > 0 && compiled.unsupported.size === compiled.ruleCount;
  const parents = results.map((result) => ({
    parentRef: result.reference,
    controllerName,
    conditions: conditionsOf(result, compiled, isRefused, meta.generation),
  }));
  const { routes, targets, backends } = compiled;
  const attachments = results.flatMap((result) => result.attachments);
  return { ...base, attachments, routes, targets, backends, parents };
}

function compile(route: RouteResource, context: BackendContext): Compiled {
  if (route.kind === 'HTTPRoute' || route.kind === 'GRPCRoute') {
    return { targets: [], ...compileRules(route as Resource<'HTTPRoute'> | Resource<'GRPCRoute'>, context) };
  }
  return compileConnections(route as Resource<'TCPRoute'> | Resource<'TLSRoute'>, context);
}

/** Nothing distinguishes the connections of several rules: the first rule has them all. */
function compileConnections(route: Resource<'TCPRoute'> | Resource<'TLSRoute'>, context: BackendContext): Compiled {
  const [rule] = route.content.rules ?? [];
  const targets: ConnectionTarget[] = [];
  let unresolved: Complaint | undefined;
  for (const reference of rule?.backendRefs ?? []) {
    const { weight = 1 } = reference;
    const backend = resolveBackend(context, reference);
    if ('reason' in backend) unresolved ??= backend;
    if (weight > 0) targets.push({ backend: 'reason' in backend ? undefined : backend, weight });
  }
  const backends = targets.flatMap(({ backend }) => backend ?? []);
  return { routes: [], targets, backends, unsupported: new Map(), unresolved, ruleCount: rule === undefined ? 0 : 1 };
}

const ACCEPTED: Complaint = { reason: 'Accepted', message: 'the route is attached' };
const RESOLVED: Complaint = { reason: 'ResolvedRefs', message: 'all references are resolved' };

function conditionsOf(
  { complaint }: ParentResult,
  { unsupported, unresolved }: Compiled,
  isRefused: boolean,
  generation: number | undefined,
): readonly Condition[] {
  const [first] = unsupported.values();
  const conditions = [
    verdict('Accepted', complaint ?? (isRefused ? first : undefined), ACCEPTED, generation),
    verdict('ResolvedRefs', unresolved, RESOLVED, generation),
  ];
  if (unsupported.size === 0 || isRefused || complaint !== undefined) return conditions;
  const rules = [...unsupported].map(([index, { message }]) => `rule ${index} (${message})`).join(', ');
  const message = `Dropped Rule: requests of these rules are answered with 500: ${rules}`;
  return [...conditions, condition('PartiallyInvalid', 'True', 'UnsupportedValue', message, generation)];
}
