/**
 * Type URLs that streams are asked for, and in which order their types are sent.
 * Source: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#resource-types
 */
import { XDS_TYPES, type XdsType } from '../../generate/types.ts';

export const TYPE_URL_OF: Readonly<Record<XdsType, string>> = {
  cds: 'type.googleapis.com/envoy.config.cluster.v3.Cluster',
  eds: 'type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment',
  sds: 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret',
  lds: 'type.googleapis.com/envoy.config.listener.v3.Listener',
  rds: 'type.googleapis.com/envoy.config.route.v3.RouteConfiguration',
  vhds: 'type.googleapis.com/envoy.config.route.v3.VirtualHost',
};

const TYPE_OF: ReadonlyMap<string, XdsType> = new Map(
  (Object.entries(TYPE_URL_OF) as [XdsType, string][]).map(([type, url]) => [url, type]),
);

/** Make-before-break: what is referred to goes before what refers to it. */
export const SEND_ORDER: readonly XdsType[] = XDS_TYPES;

/** The type that a URL names; undefined for types that are not served here. */
export function typeOfUrl(url: string): XdsType | undefined {
  return TYPE_OF.get(url);
}

/** Who names nothing in the first request of these types wants all of them: Envoy names no virtual hosts. */
export function isWildcardType(type: XdsType): boolean {
  return isFullSetType(type) || type === 'vhds';
}

/** The state-of-the-world protocol sends the whole set of these types each time; of the others only what changed. */
export function isFullSetType(type: XdsType): boolean {
  return type === 'cds' || type === 'lds';
}
