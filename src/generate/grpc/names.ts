/** Names of the resources of gRPC applications. */
import { clusterName } from '../common/index.ts';
import type { GrpcClientView } from '../types.ts';

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

/** The route configuration of a service's port. It has the name of the cluster that the default route leads to. */
export function clientRoutesName(host: string, port: number): string {
  return clusterName('outbound', port, '', host);
}
