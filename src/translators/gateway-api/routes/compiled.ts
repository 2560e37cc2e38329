/** The rules of a route, compiled independently of where the route is attached. */
import type { Resource } from '../../../resources/index.ts';
import { type Backend, type BackendContext, resolveBackend } from '../backends/backends.ts';
import type { Complaint } from '../conditions.ts';
import type { RouteKind } from '../listeners/listeners.ts';
import { type CompiledRules, compileRules } from './rules.ts';

export type RouteResource = { [K in RouteKind]: Resource<K> }[RouteKind];

/** A destination of connections of a TLSRoute or TCPRoute. */
export interface ConnectionTarget {
  /** Undefined for a backend that cannot be used, which keeps its share of connections. */
  readonly backend: Backend | undefined;
  readonly weight: number;
}

export interface Compiled extends CompiledRules {
  /** The targets of a TLSRoute or TCPRoute. */
  readonly targets: readonly ConnectionTarget[];
}

/** Its reads are recorded: only resolutions of backends, and nothing of Gateways. */
export function compile(route: RouteResource, context: BackendContext): Compiled {
  if (route.kind === 'HTTPRoute' || route.kind === 'GRPCRoute') {
    return { targets: [], ...compileRules(route as Resource<'HTTPRoute'> | Resource<'GRPCRoute'>, context) };
  }
  return compileConnections(route as Resource<'TCPRoute'> | Resource<'TLSRoute'>, context);
}

/** Connections of several rules cannot be distinguished: the first rule gets all of them. */
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
  const rules = { unsupported: new Map(), unresolved, ruleCount: rule === undefined ? 0 : 1 };
  return { ...rules, matches: [], routeOf: () => undefined, digest: '', targets, backends };
}
