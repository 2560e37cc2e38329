/** Type URLs of the resource types that xDS carries; a resource type is named by its URL on every stream. */

const PREFIX = 'type.googleapis.com/';

/** Resource type → type URL (Envoy docs, "xDS REST and gRPC protocol", resource types). */
export const TYPE_URL = {
  cluster: `${PREFIX}envoy.config.cluster.v3.Cluster`,
  endpoint: `${PREFIX}envoy.config.endpoint.v3.ClusterLoadAssignment`,
  listener: `${PREFIX}envoy.config.listener.v3.Listener`,
  route: `${PREFIX}envoy.config.route.v3.RouteConfiguration`,
  virtualHost: `${PREFIX}envoy.config.route.v3.VirtualHost`,
  secret: `${PREFIX}envoy.extensions.transport_sockets.tls.v3.Secret`,
  extensionConfig: `${PREFIX}envoy.config.core.v3.TypedExtensionConfig`,
} as const;

/** The full message name in a type URL: what stands behind the last slash. */
export function messageNameOf(typeUrl: string): string {
  return typeUrl.slice(typeUrl.lastIndexOf('/') + 1);
}

/** The type URL of a full message name. */
export function typeUrlOf(messageName: string): string {
  return PREFIX + messageName;
}
