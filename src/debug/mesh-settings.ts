/** Debug pages about settings of the mesh: its configuration, injection, other clusters, gateways of networks. */
import { isObject } from '../core/objects.ts';
import { isSecretName, redactAll, redactUrl } from '../core/redact.ts';
import type { ConnectionStatus } from '../push/index.ts';
import type { Viewed } from './viewed.ts';

/** Fields whose values are headers, variables or metadata: they may be credentials, whatever their names are. */
const REDACTED_FIELDS: ReadonlySet<string> = new Set([
  'environment',
  'headers',
  'includeAdditionalHeadersInCheck',
  'initialMetadata',
  'proxyMetadata',
]);

/** `/debug/mesh`: the mesh configuration in force, without credentials. */
export function meshPage(mesh: Viewed): unknown {
  return shownConfig(mesh.whole().mesh());
}

/** The configuration without values that may be credentials. Passwords and queries of URLs are left out, too. */
export function shownConfig(value: unknown): unknown {
  if (typeof value === 'string') return value.includes('://') ? redactUrl(value) : value;
  if (Array.isArray(value)) return value.map(shownConfig);
  if (value instanceof Map) return shownConfig(Object.fromEntries(value));
  if (!isObject(value)) return value;
  const shown = Object.entries(value).map(([name, item]) => {
    return [name, REDACTED_FIELDS.has(name) || isSecretName(name) ? redactAll(item) : shownConfig(item)];
  });
  return Object.fromEntries(shown);
}

/** `/debug/inject`: the texts that the user has written about injection. */
export function injectPage(mesh: Viewed): unknown {
  return mesh.whole().injection();
}

/** `/debug/networkz`: gateways of networks, in the form of existing tools. */
export function networkz(mesh: Viewed): unknown {
  return [...mesh.whole().networkGateways].flatMap(([network, gateways]) =>
    gateways.map(({ address, port }) => ({ network, addr: address, port })),
  );
}

/** `/debug/clusterz`: the clusters that are read, in the form of existing tools. */
export function clusterz(mesh: Viewed): unknown {
  const clusters = Map.groupBy(mesh.whole().sources(), ({ cluster }) => cluster);
  return [...clusters].map(([id, sources]) => {
    const failed = sources.flatMap(({ health }) => (health.ok ? [] : [health.reason]));
    const syncStatus = sources.every(({ synced }) => synced) ? 'synced' : 'syncing';
    return { id, secretName: '', syncStatus, sources: sources.map((source) => source.id), failed };
  });
}

/** `/debug/authenticationz`: how the workload of a proxy is authenticated and authorized, and by which documents. */
export function authenticationOf(mesh: Viewed, { node }: ConnectionStatus): object {
  const { peerAuthentication, authentication, authorization } = mesh.policiesOf(node.namespace, node.labels);
  return {
    mutualTls: peerAuthentication.mode,
    mutualTlsOfPorts: peerAuthentication.ports,
    requestAuthentications: authentication,
    authorizationPolicies: authorization,
  };
}
