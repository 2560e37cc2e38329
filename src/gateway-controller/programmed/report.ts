/**
 * What the proxies of Gateways have acknowledged, as replicas of the control plane exchange it: JSON in an annotation.
 */
import { isObject } from '../../core/objects.ts';
import { encodeEntries } from '../../object-status/index.ts';

/** What one proxy has acknowledged and rejected of the current listeners, by their digests. */
export interface ProxyListeners {
  readonly acknowledged: ReadonlySet<string>;
  /** Digest of each rejected listener → the proxy's message. */
  readonly rejected: ReadonlyMap<string, string>;
}

/** The proxies of a Gateway, by the name of their Pod. */
export type GatewayReport = ReadonlyMap<string, ProxyListeners>;

/** By `namespace/name` of the Gateway. */
export type Report = ReadonlyMap<string, GatewayReport>;

/** Maximum number of Pods of one Gateway in the report of a replica. */
export const MAX_PODS = 8;
/** Maximum length of a proxy's message about a listener that it rejects, characters. */
export const MAX_ERROR = 256;
/**
 * @returns the report as JSON, and how many Gateways are left out because it would be too large: namespaces have equal
 *   shares
 */
export function encodeReport(report: Report): { readonly text: string; readonly left: number } {
  const entries = [...report].map(([gateway, of]) => [gateway, JSON.stringify(plainReport(of))] as const);
  return encodeEntries(new Map(entries), (gateway) => gateway.slice(0, gateway.indexOf('/')));
}

function plainReport(report: GatewayReport): object {
  return Object.fromEntries(
    [...report].map(([pod, { acknowledged, rejected }]) => [
      pod,
      {
        acknowledged: [...acknowledged].sort(),
        ...(rejected.size === 0 ? {} : { rejected: Object.fromEntries([...rejected].sort()) }),
      },
    ]),
  );
}

/** @param text the entry of one Gateway; invalid entries are left out */
export function decodeGateway(text: string): GatewayReport {
  const report: unknown = JSON.parse(text);
  const pods = isObject(report) ? Object.entries(report) : [];
  return new Map(
    pods.flatMap(([pod, found]) => {
      if (!isObject(found)) return [];
      const { acknowledged, rejected } = found;
      const digests = Array.isArray(acknowledged) ? acknowledged.filter((each) => typeof each === 'string') : [];
      const errors = Object.entries(isObject(rejected) ? rejected : {}).filter(
        (entry): entry is [string, string] => typeof entry[1] === 'string',
      );
      return [[pod, { acknowledged: new Set(digests), rejected: new Map(errors) }] as const];
    }),
  );
}
