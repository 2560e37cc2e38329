/**
 * Resolves names outside the mesh, with a cache, one upstream query for equal questions, limits, and retries at the
 * next server.
 */
import { systemClock } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import { FairLimiter } from '../../core/fairness/fair-limiter.ts';
import { createFailureLog, type Log } from '../../core/log.ts';
import type { DnsClient, DnsQuery, DnsResolver } from '../types.ts';
import { RCODE } from '../wire/constants.ts';
import { startReply } from '../wire/reply.ts';
import { askServers } from './ask-servers.ts';
import { type CacheLimits, createResponseCache } from './cache.ts';
import { type Request, requestKey, responseTo, toRequest, type UpstreamResponse } from './request.ts';
import type { UpstreamSource } from './upstream.ts';

export interface ForwarderOptions {
  /** See {@link resolvConfUpstream} and {@link tlsUpstream}. */
  readonly upstream: UpstreamSource;
  readonly limits?: Partial<ForwarderLimits>;
  readonly log: Log;
  /** Monotonic ms. */
  readonly now?: () => number;
}

export interface ForwarderLimits extends CacheLimits {
  /** Questions that are resolved upstream at once; one client may have half of them. */
  readonly maxInFlight: number;
  /**
   * Queries of clients that wait for these responses (several may ask the same question); one client may have half of
   * them.
   */
  readonly maxWaiting: number;
}

/** Each query in flight needs a socket. */
const DEFAULTS: ForwarderLimits = { maxInFlight: 500, maxWaiting: 2000, maxEntries: 4096, maxBytes: 2 * 1024 * 1024 };

/** Counters since the start. */
export interface ForwarderStats {
  /** Questions answered from the cache, and those that had to wait for a server. */
  readonly cacheHits: number;
  readonly cacheMisses: number;
  readonly upstreamQueries: number;
  /** The number of those without a usable response. */
  readonly upstreamFailures: number;
  /** Queries that this forwarder had sent and received itself. */
  readonly loops: number;
  readonly cacheEntries: number;
}

export interface Forwarder extends DnsResolver {
  readonly stats: ForwarderStats;
  /** Aborts the queries in flight and closes connections. */
  close(): void;
}

export function createForwarder(options: ForwarderOptions): Forwarder {
  const { upstream, log, now = systemClock.now } = options;
  const limits = { ...DEFAULTS, ...options.limits };
  const cache = createResponseCache(limits, now);
  const limiter = new FairLimiter(limits.maxInFlight);
  const waiters = new FairLimiter(limits.maxWaiting);
  const inFlight = new Map<string, Promise<UpstreamResponse>>();
  const counters = { cacheHits: 0, cacheMisses: 0, upstreamQueries: 0, upstreamFailures: 0, loops: 0 };
  const failures = createFailureLog(log, 'DNS queries fail', 'DNS queries succeed again');

  const shared = (key: string, request: Request, client: DnsClient): Promise<UpstreamResponse> => {
    const running = inFlight.get(key);
    if (running !== undefined) return running;
    const release = limiter.enter(client.identity ?? client.address);
    if (release === undefined) throw new CtlError('resource_exhausted', 'too many names are being resolved');
    const started = askServers(request, { upstream, counters, failures, log, now })
      .then((response) => {
        cache.set(key, response);
        return response;
      })
      .finally(() => {
        inFlight.delete(key);
        release();
      });
    inFlight.set(key, started);
    return started;
  };
  const wait = async (query: DnsQuery, client: DnsClient, key: string, request: Request): Promise<Buffer> => {
    const release = waiters.enter(client.identity ?? client.address);
    if (release === undefined) throw new CtlError('resource_exhausted', 'too many queries wait for an answer');
    try {
      const { message } = await shared(key, request, client);
      return responseTo(query, message);
    } finally {
      release();
    }
  };

  return {
    resolve(query, client) {
      if (client.protocol === 'udp' && upstream.sent(client.port, query.bytes.readUInt16BE(0))) {
        counters.loops++;
        log.debug('refused a DNS query that this server had sent itself (a forwarding loop)');
        return startReply(query, 0, RCODE.REFUSED);
      }
      const request = toRequest(query);
      const key = requestKey(request);
      const cached = cache.get(key);
      if (cached !== undefined) {
        counters.cacheHits++;
        return responseTo(query, cached);
      }
      counters.cacheMisses++;
      return wait(query, client, key, request);
    },
    get stats() {
      return { ...counters, cacheEntries: cache.entries };
    },
    close() {
      upstream.close();
      cache.clear();
    },
  };
}
