/**
 * What the proxies of Gateways have acknowledged, as replicas of the control plane exchange it: JSON in an annotation.
 */
import { isObject } from '../../core/objects.ts';

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
 * Maximum size of the report. Kubernetes limits all annotations of an object to 262,144 bytes; this is enough for 1,500
 * Gateways of 2 Pods and 2 listeners.
 */
export const MAX_BYTES = 250_000;

/**
 * @returns the report as JSON, and how many Gateways are left out because it would be too large: namespaces have equal
 *   shares
 */
export function encodeReport(report: Report): { readonly text: string; readonly left: number } {
  const chosen: string[] = [];
  let bytes = 2;
  for (const [gateway, ofGateway] of inTurns(report)) {
    const entry = `${JSON.stringify(gateway)}:${JSON.stringify(plainReport(ofGateway))}`;
    const size = Buffer.byteLength(entry) + 1;
    if (bytes + size > MAX_BYTES) continue;
    bytes += size;
    chosen.push(entry);
  }
  // The order does not depend on which proxy connected first.
  return { text: `{${chosen.sort().join(',')}}`, left: report.size - chosen.length };
}

/** The first Gateway of each namespace, then the second of each, and so on. */
function inTurns(report: Report): readonly (readonly [string, GatewayReport])[] {
  const turns = new Map<string, number>();
  const entries = [...report].sort(([one], [other]) => (one < other ? -1 : 1));
  const ranked = entries.map((entry) => {
    const namespace = entry[0].slice(0, entry[0].indexOf('/'));
    const turn = turns.get(namespace) ?? 0;
    turns.set(namespace, turn + 1);
    return { turn, entry };
  });
  return ranked.sort((one, other) => one.turn - other.turn).map(({ entry }) => entry);
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

/** The reports of Gateways as JSON by `namespace/name`; invalid reports are left out. */
export function splitReport(text: string): ReadonlyMap<string, string> {
  try {
    const report: unknown = JSON.parse(text);
    if (!isObject(report)) return new Map();
    return new Map(Object.entries(report).map(([gateway, value]) => [gateway, JSON.stringify(value)]));
  } catch {
    return new Map();
  }
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
