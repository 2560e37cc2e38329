/** The schemas whose fields have to be shown by tests. */

import { DERIVED_KINDS, type Kind } from '../../src/resources/kinds/kinds.ts';
import { SCHEMAS } from '../../src/resources/kinds/schemas.ts';
import { meshConfig, meshNetworks, proxyConfig } from '../../src/resources/schema/mesh-config.ts';
import { FieldTable } from './fields.ts';

const DERIVED: ReadonlySet<string> = new Set(DERIVED_KINDS);

const KINDS = (Object.keys(SCHEMAS) as Kind[]).filter((kind) => !DERIVED.has(kind)).sort();

export const MESH_CONFIG = 'MeshConfig';
export const MESH_NETWORKS = 'MeshNetworks';
export const PROXY_CONFIG = 'ProxyConfig';
/** The kind of that name: the field `defaultConfig` has more fields than its documents. */
const PROXY_CONFIG_DOCUMENT = 'ProxyConfigDocument';

const proxy = new FieldTable(PROXY_CONFIG, proxyConfig);

/** By kind, and by the names of the configuration files. */
export const FIELDS: ReadonlyMap<string, FieldTable> = new Map([
  ...KINDS.map((kind) => {
    const name = kind === PROXY_CONFIG ? PROXY_CONFIG_DOCUMENT : kind;
    return [name, new FieldTable(name, SCHEMAS[kind])] as const;
  }),
  [MESH_CONFIG, new FieldTable(MESH_CONFIG, meshConfig, [proxy])],
  [MESH_NETWORKS, new FieldTable(MESH_NETWORKS, meshNetworks)],
  [PROXY_CONFIG, proxy],
]);

export function allFields(): readonly string[] {
  return [...FIELDS.values()].flatMap((table) => table.names());
}
