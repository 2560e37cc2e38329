/** Names of the resources of gRPC applications. */
import { GRPC_SERVER_LISTENERS } from '../../core/proxy.ts';
import { clusterName } from '../common/index.ts';
import type { GrpcClientView } from '../views.ts';

/** The names under which an application requests a service: the host, and for services of its own namespace its short forms. */
export function clientNames(host: string, { namespace, dnsDomain }: GrpcClientView): readonly string[] {
  if (dnsDomain === '' || !host.endsWith(`.${dnsDomain}`)) return [host];
  const name = host.slice(0, -dnsDomain.length - 1);
  if (name.includes('.')) return [host];
  return [host, name, `${name}.${namespace}`, `${name}.${namespace}.svc`];
}

/** The listener of `xds:///<host>:<port>`. */
export function clientListenerName(host: string, port: number): string {
  return `${host}:${port}`;
}

/** The route configuration of a service's port. It has the name of the cluster of the default route. */
export function clientRoutesName(host: string, port: number): string {
  return clusterName('outbound', port, '', host);
}

/**
 * Addresses at which servers usually listen. gRPC refuses a listener for any other address than the server's own; with
 * addresses of single machines, each replica would need its own view.
 */
const SERVER_ADDRESSES = ['0.0.0.0', '::', '127.0.0.1', '::1'] as const;

/** The listeners of a server's port, by name: a server requests one of them. */
export function serverListenerNames(port: number): readonly { readonly name: string; readonly address: string }[] {
  return GRPC_SERVER_LISTENERS.flatMap((prefix) =>
    SERVER_ADDRESSES.map((address) => {
      const host = address.includes(':') ? `[${address}]` : address;
      return { name: `${prefix}${host}:${port}`, address };
    }),
  );
}
