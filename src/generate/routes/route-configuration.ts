/** Route configurations joined from virtual hosts that are encoded already. */
import { encode, envoy } from '../../protobuf/index.ts';

const { RouteConfiguration } = envoy.config.route.v3;

/** Tag of RouteConfiguration.virtual_hosts: field 2, length-delimited (https://protobuf.dev/programming-guides/encoding/). */
const VIRTUAL_HOSTS_TAG = 0x12;

/** What is written behind the virtual hosts: fields with a number above 2. */
export type RouteConfigurationRest = Omit<envoy.config.route.v3.RouteConfiguration.Input, 'name' | 'virtualHosts'>;

/** The same bytes as encoding the whole message at once. */
export function encodeRouteConfiguration(
  name: string,
  virtualHosts: readonly Uint8Array[],
  rest: RouteConfigurationRest,
): Uint8Array {
  const head = encode(RouteConfiguration, { name });
  const tail = encode(RouteConfiguration, rest);
  let length = head.length + tail.length;
  for (const { length: size } of virtualHosts) length += 1 + varintLength(size) + size;
  const bytes = new Uint8Array(length);
  bytes.set(head, 0);
  let at = head.length;
  for (const virtualHost of virtualHosts) {
    bytes[at++] = VIRTUAL_HOSTS_TAG;
    at = writeVarint(bytes, at, virtualHost.length);
    bytes.set(virtualHost, at);
    at += virtualHost.length;
  }
  bytes.set(tail, at);
  return bytes;
}

function varintLength(value: number): number {
  let length = 1;
  for (let rest = value; rest >= 0x80; rest >>>= 7) length++;
  return length;
}

function writeVarint(bytes: Uint8Array, start: number, value: number): number {
  let at = start;
  let rest = value;
  for (; rest >= 0x80; rest >>>= 7) bytes[at++] = (rest & 0x7f) | 0x80;
  bytes[at++] = rest;
  return at;
}
