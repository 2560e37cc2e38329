/** The text of a report: a JSON object with an entry for each key, of limited size. */
import { isObject } from '../../core/objects.ts';

/**
 * Maximum size of a report. Kubernetes limits all annotations of an object to 262,144 bytes; this is enough for 1,500
 * Gateways of 2 Pods and 2 listeners.
 */
export const MAX_BYTES = 250_000;

/**
 * @param entries JSON by key
 * @param namespaceOf the namespace of a key
 * @returns the report as JSON, and how many entries are left out because it would be too large: namespaces have equal
 *   shares
 */
export function encodeEntries(
  entries: ReadonlyMap<string, string>,
  namespaceOf: (key: string) => string,
): { readonly text: string; readonly left: number } {
  const chosen: string[] = [];
  let bytes = 2;
  for (const [key, entry] of inTurns(entries, namespaceOf)) {
    const text = `${JSON.stringify(key)}:${entry}`;
    const size = Buffer.byteLength(text) + 1;
    if (bytes + size > MAX_BYTES) continue;
    bytes += size;
    chosen.push(text);
  }
  // The order does not depend on which proxy connected first.
  return { text: `{${chosen.sort().join(',')}}`, left: entries.size - chosen.length };
}

/** The first entry of each namespace, then the second of each, and so on. */
function inTurns(
  entries: ReadonlyMap<string, string>,
  namespaceOf: (key: string) => string,
): readonly (readonly [string, string])[] {
  const turns = new Map<string, number>();
  const sorted = [...entries].sort(([one], [other]) => (one < other ? -1 : 1));
  const ranked = sorted.map((entry) => {
    const namespace = namespaceOf(entry[0]);
    const turn = turns.get(namespace) ?? 0;
    turns.set(namespace, turn + 1);
    return { turn, entry };
  });
  return ranked.sort((one, other) => one.turn - other.turn).map(({ entry }) => entry);
}

/** The entries of a report as JSON by key; empty if it is not a report. */
export function splitReport(text: string): ReadonlyMap<string, string> {
  try {
    const report: unknown = JSON.parse(text);
    if (!isObject(report)) return new Map();
    return new Map(Object.entries(report).map(([key, value]) => [key, JSON.stringify(value)]));
  } catch {
    return new Map();
  }
}
