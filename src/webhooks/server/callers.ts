/**
 * Who calls a webhook. Anyone who reaches the port can call, and API servers usually show no certificate, so only the
 * address of a caller tells whether it may be an API server. The rank of an address decides the order of the
 * responses, and whether a dry run is told how many proxies a document concerns. It decides nothing else.
 */

/**
 * `api-server`: an endpoint of the Service `default/kubernetes`. `pod`: the address of a Pod, not of an API server.
 * `unknown`: any other address; an API server may be behind an address translation.
 */
export type CallerRank = 'api-server' | 'unknown' | 'pod';

/** The best rank first. */
const RANKS: readonly CallerRank[] = ['api-server', 'unknown', 'pod'];

/** By rank: the share of a common resource that callers of this rank and of better ranks may use together. */
const SHARES: Readonly<Record<CallerRank, number>> = { 'api-server': 1, unknown: 0.75, pod: 0.5 };

export interface Caller {
  /** The address that limits count by. */
  readonly address: string;
  readonly rank: CallerRank;
}

/** Shares in the order of {@link rankNumber}. */
export const RANK_SHARES: readonly number[] = RANKS.map((rank) => SHARES[rank]);

export function rankNumber(rank: CallerRank): number {
  return RANKS.indexOf(rank);
}

export function shareOf(rank: CallerRank): number {
  return SHARES[rank];
}

/** Where an API server writes the namespace of a request: before the object, and after fields of fewer bytes. */
const HEAD_BYTES = 4096;

/**
 * The namespace that a review is about, from its bytes as API servers write them; '' where there is none. It decides
 * how the reviews of one caller share time. A caller does not get more time by naming other namespaces.
 */
export function namespaceIn(body: Uint8Array): string {
  const head = Buffer.from(body.buffer, body.byteOffset, Math.min(body.length, HEAD_BYTES)).toString('latin1');
  return /"namespace":"([a-z0-9-]{1,63})"/.exec(head)?.[1] ?? '';
}
