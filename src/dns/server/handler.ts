/** Turns a received message into its response, with checks, the resolver chain, limits and counters. */
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { FairLimiter } from '../../core/fairness/fair-limiter.ts';
import type { Log } from '../../core/log.ts';
import type { DnsAnswer, DnsClient, DnsQuery, DnsResolver, DnsServerStats } from '../types.ts';
import { MAX_MESSAGE_BYTES, MIN_UDP_BYTES, RCODE, rcodeName } from '../wire/constants.ts';
import { readQuery } from '../wire/query.ts';
import { errorReply, finished, isTruncated, readRcode, startReply, withOpt } from '../wire/reply.ts';

export interface HandlerOptions {
  readonly resolvers: readonly DnsResolver[];
  /** Whether the client may send queries; others receive REFUSED. */
  allows(client: DnsClient): boolean;
  /** How many queries may wait for an answer at once. */
  readonly maxWaiting: number;
  /** Largest response over UDP, bytes. */
  readonly maxUdpBytes: number;
  readonly log: Log;
}

export interface Handler {
  readonly stats: Stats;
  /** The response to a message; undefined if there is none. Never throws or rejects. */
  handle(bytes: Buffer, client: DnsClient): Buffer | undefined | Promise<Buffer>;
}

export interface Stats extends DnsServerStats {
  readonly queries: { udp: number; tcp: number; tls: number };
  readonly responses: Map<string, number>;
  truncated: number;
  limited: number;
  connections: number;
}

export function createHandler({ resolvers, allows, maxWaiting, maxUdpBytes, log }: HandlerOptions): Handler {
  const stats: Stats = {
    queries: { udp: 0, tcp: 0, tls: 0 },
    responses: new Map(),
    truncated: 0,
    limited: 0,
    connections: 0,
  };
  const waiting = new FairLimiter(maxWaiting);

  const counted = (response: Buffer, rcode = readRcode(response)): Buffer => {
    const name = rcodeName(rcode);
    stats.responses.set(name, (stats.responses.get(name) ?? 0) + 1);
    return response;
  };
  const ask = (query: DnsQuery, client: DnsClient, index: number): DnsAnswer => {
    const resolver = resolvers[index];
    if (resolver === undefined) return startReply(query, 0, RCODE.REFUSED);
    return resolver.resolve(query, client, () => ask(query, client, index + 1));
  };
  const finish = (query: DnsQuery, client: DnsClient, response: Buffer): Buffer => {
    const wanted = Math.max(query.edns?.udpPayload ?? 0, MIN_UDP_BYTES);
    const limit = client.protocol === 'udp' ? Math.min(wanted, maxUdpBytes) : MAX_MESSAGE_BYTES;
    const result = finished(query, response, limit, maxUdpBytes);
    if (client.protocol === 'udp' && isTruncated(result)) stats.truncated++;
    return counted(result);
  };
  const fail = (query: DnsQuery, client: DnsClient, error: unknown): Buffer => {
    const text = `no answer for ${query.name ?? 'a name that is not a host name'}: ${oneLineOf(error)}`;
    if (error instanceof CtlError) log.debug(text);
    else log.error(text, { error });
    return finish(query, client, startReply(query, 0, RCODE.SERVFAIL));
  };

  return {
    stats,
    handle(bytes, client) {
      const query = readQuery(bytes);
      if ('rcode' in query && query.rcode === undefined) return undefined;
      stats.queries[client.protocol]++;
      if ('rcode' in query) {
        const { rcode = RCODE.FORMERR, questionEnd, edns } = query;
        const reply = errorReply(bytes, rcode, questionEnd);
        return counted(edns ? withOpt(reply, maxUdpBytes, rcode, false) : reply, rcode);
      }
      if (!allows(client)) return finish(query, client, startReply(query, 0, RCODE.REFUSED));
      try {
        const answer = ask(query, client, 0);
        if (Buffer.isBuffer(answer)) return finish(query, client, answer);
        const release = waiting.enter(client.identity ?? client.address);
        if (release === undefined) {
          stats.limited++;
          answer.catch(() => undefined);
          return finish(query, client, startReply(query, 0, RCODE.SERVFAIL));
        }
        return answer
          .then((response) => finish(query, client, response))
          .catch((error: unknown) => fail(query, client, error))
          .finally(release);
      } catch (error) {
        return fail(query, client, error);
      }
    },
  };
}
