/** Small protobuf values that every generator writes. */
import type { envoy, google } from '../../protobuf/index.ts';

/**
 * The longest duration that Envoy accepts: 2^63 ns, rounded down to whole hours. Longer durations in resources and the
 * mesh configuration are refused, but a program setting may be Infinity.
 */
const MAX_MILLIS = 2_562_047 * 3_600_000;

/** `google.protobuf.Duration` of milliseconds (fractions down to nanoseconds are kept). */
export function toDuration(milliseconds: number): google.protobuf.Duration.Input {
  const bounded = Math.min(milliseconds, MAX_MILLIS);
  const seconds = Math.trunc(bounded / 1000);
  const nanos = Math.round((bounded - seconds * 1000) * 1e6);
  return nanos >= 1e9 ? { seconds: seconds + 1, nanos: 0 } : { seconds, nanos };
}

/** The address of a socket, or of a unix domain socket when it is a path (`/…`) or an abstract name (`@…`). */
export function addressOf(address: string, port: number): envoy.config.core.v3.Address.Input {
  if (isSocketPath(address)) return { pipe: { path: address } };
  return { socketAddress: { address, portValue: port } };
}

export function isSocketPath(address: string): boolean {
  return address.startsWith('/') || address.startsWith('@');
}

const IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/;

/** Whether Envoy accepts the string as an IP address in fields where Envoy does not resolve names. */
export function isIpAddress(address: string): boolean {
  return IPV4.test(address) || (address.includes(':') && /^[0-9a-fA-F:.]+$/.test(address));
}

/** Makes Envoy request the resource over the ADS stream. */
export function adsConfigSource(initialFetchTimeoutMs: number): envoy.config.core.v3.ConfigSource.Input {
  return {
    ads: {},
    initialFetchTimeout: toDuration(initialFetchTimeoutMs),
    resourceApiVersion: API_VERSION_V3,
  };
}

/** envoy.config.core.v3.ApiVersion.V3 */
export const API_VERSION_V3 = 2;
