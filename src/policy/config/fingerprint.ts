/** Fingerprints of configuration: equal for equal values. */
import { createHash } from 'node:crypto';

/** Of plain data, maps and bytes; the order of properties and of the entries of maps matters not. */
export function fingerprint(value: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(plain(value)))
    .digest('hex');
}

function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return { bytes: Buffer.from(value).toString('base64') };
  if (value instanceof Map) return { map: plain(Object.fromEntries(value)) };
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(members.map(([key, member]) => [key, plain(member)]));
}
