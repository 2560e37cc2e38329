/** XDS_LOCAL: where the xDS proxy of the agent listens. */
import { CtlError, messageOf } from '../../core/errors.ts';
import { isLoopbackName } from '../../core/network/loopback.ts';
import { parseListenAddress } from '../../settings/index.ts';

/** A Unix domain socket, or an address of the machine. */
export type LocalAddress = { readonly path: string } | { readonly host: string; readonly port: number };

/**
 * `/path`, `unix:path`, `host:port`, or `:port` for loopback.
 *
 * @param loopback the loopback address of the workload's address family
 * @returns undefined for an empty text, which switches the proxy off. Throws CtlError for any other text.
 */
export function parseXdsLocal(text: string, loopback: string): LocalAddress | undefined {
  if (text === '') return undefined;
  const path = /^unix:(?:\/\/(?=\/))?(.+)$/.exec(text)?.[1] ?? (text.includes('/') ? text : undefined);
  if (path !== undefined) return { path };
  try {
    const { host, port } = parseListenAddress(text);
    if (port === 0) throw new CtlError('invalid_argument', 'the port must not be 0: Envoy needs to know it');
    // `*:port` asks for all addresses, `:port` does not.
    return { host: host ?? (text.startsWith('*') ? '::' : loopback), port };
  } catch (error) {
    const message = `${JSON.stringify(text)} is neither a path nor an address: ${messageOf(error)}`;
    throw new CtlError('invalid_argument', message, { field: 'XDS_LOCAL' }, error);
  }
}

/** The address at which programs of the machine reach the proxy. */
export function dialedAddress(local: LocalAddress, loopback: string): LocalAddress {
  if ('path' in local) return local;
  return local.host === '0.0.0.0' || local.host === '::' ? { host: loopback, port: local.port } : local;
}

/** A warning when other machines may reach the address. */
export function exposureOf(local: LocalAddress | undefined): readonly string[] {
  if (local === undefined || 'path' in local || isLoopbackName(local.host)) return [];
  return [
    `XDS_LOCAL listens on ${local.host}: every client that reaches it receives the configuration of this workload`,
  ];
}
