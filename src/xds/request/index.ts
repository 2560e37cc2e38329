/**
 * Reads the requests of streams.
 *
 * A request is small except for its lists: the names of resources that a proxy subscribes to, or the names and versions
 * that it reports when it reconnects. The state of the world variant repeats all names with every acknowledgement. So a
 * changed endpoint in a mesh of 1,000 proxies and 1,000 services causes 1,000 requests of 19 to 65 kB, and after a
 * restart of the server every proxy sends each of these lists at the same time; over Delta only the latter happens.
 * Most of this module avoids paying for that once per proxy:
 *
 * - `request-reader.ts` cuts the bytes of a stream into messages and decodes them (`decode.ts`, `request-lists.ts`);
 *   `node.ts` parses the node in the first of them.
 * - `message-assembly.ts` compares a message with known lists while it arrives (`list-match.ts`, `name-list-cache.ts`).
 *   Known bytes are neither kept nor decoded: the list is the same object as before. Measured with 1,000 proxies: a
 *   changed endpoint over state of the world takes 0.47 s of CPU instead of 1.17 s with whole requests, a reconnect
 *   over Delta 4.6 s instead of 6.7 s, with 120 MiB less resident memory.
 * - `entry-table.ts` recognizes a list with its entries in another order, because each Envoy walks hash maps of its
 *   own: a proxy that connects costs 0.4 of what decoding its names costs.
 * - `name-list-builder.ts` assembles a list once that many proxies send at the same time, while none has sent all of
 *   it. Measured with 1,000 proxies over Delta: a reconnect takes 0.53 s of CPU instead of 1.0 s, and 245 MiB of
 *   resident memory instead of 360 MiB.
 * - `known-extensions.ts` leaves the extensions out of nodes that wait, 55 of 60 kB, and saves reading them.
 * - `receive-memory-quota.ts` bounds the memory of incomplete requests, per client address and in all: the port may be
 *   open to anyone, and a request may have 4 MiB.
 *
 * Comparisons are exact, so that no proxy can have its list confused with another's. What is remembered belongs to a
 * `RequestFormats`, one for each server, and is held weakly. With its memos switched off every request is decoded, with
 * the same result.
 */

export { RequestFormats } from './decode.ts';
export type { KnownExtensions } from './known-extensions.ts';
export { parseNode } from './node.ts';
export { type PerClientQuota, ReceiveMemoryQuota, type Reservation } from './receive-memory-quota.ts';
export { type RequestFormat, RequestReader, type RequestSink } from './request-reader.ts';
