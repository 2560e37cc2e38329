/**
 * A cache of responses of upstream resolvers, with their TTLs: limited in entries and bytes, the least recently used
 * removed first.
 */
import { FLAG, RCODE, TYPE } from '../wire/constants.ts';
import type { RecordLayout } from '../wire/layout.ts';
import { isTruncated, readRcode } from '../wire/reply.ts';
import type { UpstreamResponse } from './request.ts';

export interface CacheLimits {
  readonly maxEntries: number;
  readonly maxBytes: number;
}

export interface ResponseCache {
  readonly entries: number;
  readonly bytes: number;
  /** A copy with the remaining TTLs; undefined if there is none or it has expired. */
  get(key: string): Buffer | undefined;
  set(key: string, response: UpstreamResponse): void;
  clear(): void;
}

/** Larger responses are rare, and would displace many small ones. */
const MAX_RESPONSE_BYTES = 8 * 1024;
/** A mistake in a zone must not last for days (RFC 8767 section 4 suggests at most 7 days). */
const MAX_TTL_SECONDS = 24 * 3600;
/** RFC 2308 section 5 suggests at most 3 hours. New names are more frequent than deleted ones. */
const MAX_NEGATIVE_SECONDS = 15 * 60;
/** Memory of an entry besides its response: key, offsets, the entry of the map. */
const ENTRY_BYTES = 300;

interface Entry {
  readonly message: Buffer;
  readonly ttlOffsets: readonly number[];
  readonly storedAt: number;
  readonly expiresAt: number;
  readonly bytes: number;
}

/** @param now monotonic ms */
export function createResponseCache({ maxEntries, maxBytes }: CacheLimits, now: () => number): ResponseCache {
  // In the order of their last use.
  const entries = new Map<string, Entry>();
  let bytes = 0;
  const remove = (key: string, entry: Entry): void => {
    entries.delete(key);
    bytes -= entry.bytes;
  };
  return {
    get entries() {
      return entries.size;
    },
    get bytes() {
      return bytes;
    },
    get(key) {
      const entry = entries.get(key);
      if (entry === undefined) return undefined;
      const time = now();
      if (time >= entry.expiresAt) {
        remove(key, entry);
        return undefined;
      }
      entries.delete(key);
      entries.set(key, entry);
      return aged(entry, Math.floor((time - entry.storedAt) / 1000));
    },
    set(key, { message, layout: { records } }) {
      const seconds = lifetimeSeconds(message, records);
      if (seconds <= 0 || message.length > MAX_RESPONSE_BYTES) return;
      const old = entries.get(key);
      if (old !== undefined) remove(key, old);
      const time = now();
      const entry: Entry = {
        // A copy: a slice would keep the whole buffer in memory.
        message: copyMessage(message),
        ttlOffsets: records.map(({ ttlAt }) => ttlAt),
        storedAt: time,
        expiresAt: time + seconds * 1000,
        bytes: message.length + key.length + 8 * records.length + ENTRY_BYTES,
      };
      entries.set(key, entry);
      bytes += entry.bytes;
      for (const [oldest, least] of entries) {
        if (entries.size <= maxEntries && bytes <= maxBytes) break;
        remove(oldest, least);
      }
    },
    clear() {
      entries.clear();
      bytes = 0;
    },
  };
}

function copyMessage(message: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(message.length);
  message.copy(copy);
  return copy;
}

function aged({ message, ttlOffsets }: Entry, seconds: number): Buffer {
  const copy = Buffer.from(message);
  // The response of a cache is not authoritative.
  copy.writeUInt16BE(copy.readUInt16BE(2) & ~FLAG.AA, 2);
  for (const at of ttlOffsets) copy.writeUInt32BE(Math.max(0, readTtl(message, at) - seconds), at);
  return copy;
}

/** A TTL with the first bit set counts as zero (RFC 2181 section 8). */
function readTtl(message: Buffer, at: number): number {
  const ttl = message.readUInt32BE(at);
  return ttl > 0x7fffffff ? 0 : ttl;
}

/** How long a response may be used, seconds; 0 when it must not be cached. */
function lifetimeSeconds(message: Buffer, records: readonly RecordLayout[]): number {
  const rcode = readRcode(message);
  if (isTruncated(message) || (rcode !== RCODE.NOERROR && rcode !== RCODE.NXDOMAIN)) return 0;
  const ttls = records.map(({ ttlAt }) => readTtl(message, ttlAt));
  const shortest = Math.min(MAX_TTL_SECONDS, ...ttls);
  const type = message.readUInt16BE((records[0]?.start ?? 4) - 4);
  const answers = records.filter(({ section }) => section === 'answer');
  const positive = answers.some((record) => record.type === type || type === TYPE.ANY || record.type !== TYPE.CNAME);
  if (rcode === RCODE.NOERROR && positive) return shortest;
  // RFC 2308 section 5: by the SOA record of the zone. Without one a negative response is not cached.
  const soa = records.find((record) => record.section === 'authority' && record.type === TYPE.SOA);
  if (soa === undefined || soa.end - soa.dataAt < 22) return 0;
  return Math.min(shortest, message.readUInt32BE(soa.end - 4), MAX_NEGATIVE_SECONDS);
}
