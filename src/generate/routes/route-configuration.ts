/** Route configurations joined from encoded virtual hosts. */
import { encode, envoy } from '../../protobuf/index.ts';
import { joinedResource } from '../common/index.ts';
import type { GeneratedResource } from '../types.ts';
import type { VirtualHostMessage } from './messages.ts';

const { RouteConfiguration } = envoy.config.route.v3;

/** Fields after the virtual hosts: those with a number above 2. */
export type RouteConfigurationRest = Omit<envoy.config.route.v3.RouteConfiguration.Input, 'name' | 'virtualHosts'>;

/** A virtual host as a piece of its route configuration: field 2 with its tag and length. */
export function encodeVirtualHost(virtualHost: VirtualHostMessage): Uint8Array {
  return encode(RouteConfiguration, { virtualHosts: [virtualHost] });
}

/** The same bytes as encoding the whole message at once: its fields are in the order of their numbers. */
export function routeConfiguration(
  name: string,
  virtualHosts: readonly Uint8Array[],
  rest: RouteConfigurationRest,
  refs: readonly string[] = [],
): GeneratedResource {
  const head = encode(RouteConfiguration, { name });
  const tail = encode(RouteConfiguration, rest);
  return joinedResource(name, [head, ...virtualHosts, tail], refs);
}
