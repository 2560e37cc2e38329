/** The context of a gateway's routes. */
import type { MeshReader } from '../reads/index.ts';
import { type RouteContext, routeFeatures, scopeLookups } from '../routes/index.ts';
import type { GatewayView } from '../views.ts';

/** `port` is the servers' port, which clients use; `gateway` is `namespace/name`. */
export function gatewayContext(snapshot: MeshReader, view: GatewayView, port: number, gateway: string): RouteContext {
  const scope = snapshot.gatewayScope(view.namespace, view.ruleLabels);
  return {
    memos: snapshot.memos,
    gateway,
    port,
    defaultTimeoutMs: snapshot.settings.defaultRequestTimeoutMs,
    features: routeFeatures(snapshot, view),
    lookups: scopeLookups(scope, { namespace: view.namespace, labels: {} }),
  };
}
