/** The addresses of `configSources` in the mesh configuration. */
import type { MeshConfig } from './schema/mesh-config.ts';

export type ConfigSourceSettings = MeshConfig['configSources'][number];

/** Where a source of configuration is. */
export type ConfigSourceAddress =
  /** `fs:///DIRECTORY` */
  | { readonly kind: 'directory'; readonly directory: string }
  /** `k8s://`: the mesh's kinds of the cluster that is read. */
  | { readonly kind: 'cluster' }
  /** `xds://HOST:PORT`, and `HOST:PORT` for MCP. */
  | { readonly kind: 'xds' | 'mcp'; readonly host: string; readonly port: number };

const HOST_PORT = /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})?)):([0-9]{1,5})$/;
const MAX_PORT = 65_535;

/** Undefined for an address that this program cannot read. */
export function parseConfigSource(address: string): ConfigSourceAddress | undefined {
  if (address.startsWith('fs://')) {
    const directory = address.slice('fs://'.length);
    return directory.startsWith('/') ? { kind: 'directory', directory } : undefined;
  }
  if (address === 'k8s://' || address === 'k8s:///') return { kind: 'cluster' };
  const isXds = address.startsWith('xds://');
  const [, v6, name, port = ''] = HOST_PORT.exec(isXds ? address.slice('xds://'.length) : address) ?? [];
  const host = v6 ?? name;
  const number = Number(port);
  if (host === undefined || number < 1 || number > MAX_PORT) return undefined;
  return { kind: isXds ? 'xds' : 'mcp', host, port: number };
}
