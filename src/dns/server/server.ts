/** Starts the DNS server: its addresses over UDP and TCP, or over TLS. */
import { systemClock } from '../../core/clock.ts';
import { CtlError, errnoOf } from '../../core/errors.ts';
import { FairLimiter } from '../../core/fairness/fair-limiter.ts';
import type { Log } from '../../core/log.ts';
import { cannotListen, hostPort, isMissingAddress } from '../../core/network/listen.ts';
import type { DnsResolver, DnsServer } from '../types.ts';
import { SAFE_UDP_BYTES } from '../wire/constants.ts';
import { createHandler } from './handler.ts';
import { createLocalAddresses } from './local-addresses.ts';
import { type DnsServerTls, type StreamContext, startStreams } from './streams.ts';
import { startUdp } from './udp.ts';

/** An address to listen on: UDP and TCP, or TLS. */
export interface DnsListener {
  /** IP address; undefined: all addresses of the machine. */
  readonly host: string | undefined;
  /** 0 selects any free port. */
  readonly port: number;
  readonly tls?: DnsServerTls | undefined;
  /** Whether to skip the address if the machine does not have it, such as `::1` if IPv6 is disabled. */
  readonly optional?: boolean | undefined;
}

export interface DnsServerOptions {
  readonly listen: readonly DnsListener[];
  /** The resolvers in the order in which they are asked. A query that none of them answers receives REFUSED. */
  readonly resolvers: readonly DnsResolver[];
  /**
   * `local`: only programs on this machine are answered. `any` is an open resolver for everyone who can reach the
   * address.
   */
  readonly clients: 'local' | 'any';
  readonly limits?: Partial<DnsServerLimits>;
  readonly log: Log;
}

export interface DnsServerLimits {
  /** TCP and TLS connections at once; one client may have half of them. */
  readonly maxConnections: number;
  /** Maximum number of waiting queries of one connection; more are read when one is answered. */
  readonly maxPipelined: number;
  /** A connection without a query is closed after this, ms. */
  readonly idleMs: number;
  /** A connection is closed after this, ms, when its queries are answered: client certificates expire. */
  readonly maxAgeMs: number;
  /** Queries that wait for an answer at once; one client may have half of them. */
  readonly maxWaiting: number;
  /** Largest response over UDP, bytes. */
  readonly maxUdpBytes: number;
}

/**
 * RFC 7766 section 6.2.3 recommends an idle timeout of a few seconds. On loopback, where packets are not fragmented,
 * larger UDP responses are safe.
 */
const DEFAULTS = {
  maxConnections: 256,
  maxPipelined: 32,
  idleMs: 10_000,
  maxAgeMs: 600_000,
  maxWaiting: 2000,
} as const;
const LOCAL_UDP_BYTES = 4096;

/** Attempts to find a port that is free for both UDP and TCP. */
const PORT_ATTEMPTS = 5;

/** Rejects with CtlError when an address cannot be bound. */
export async function startDnsServer(options: DnsServerOptions): Promise<DnsServer> {
  const { log, clients, resolvers } = options;
  const maxUdpBytes = clients === 'local' ? LOCAL_UDP_BYTES : SAFE_UDP_BYTES;
  const limits: DnsServerLimits = { ...DEFAULTS, maxUdpBytes, ...options.limits };
  const isLocal = createLocalAddresses(systemClock.now);
  const handler = createHandler({
    ...limits,
    resolvers,
    log,
    allows: clients === 'any' ? () => true : ({ address }) => isLocal(address),
  });
  const context: StreamContext = { handler, limits, log, connections: new FairLimiter(limits.maxConnections) };
  const started: Listening[] = [];
  const close = async () => {
    await Promise.all(started.map((listening) => listening.close()));
  };
  try {
    for (const listener of options.listen) {
      const listening = await listen(listener, context).catch((error: unknown) => {
        throw cannotListen('DNS', listener, error);
      });
      if (listening !== undefined) started.push(listening);
    }
    if (started.length === 0) throw new CtlError('unavailable', 'the DNS server has no address to listen on');
  } catch (error) {
    await close();
    throw error;
  }
  return { addresses: started.map(({ address }) => address), stats: handler.stats, close };
}

interface Listening {
  readonly address: string;
  close(): Promise<void>;
}

async function listen(listener: DnsListener, context: StreamContext): Promise<Listening | undefined> {
  const { host, port, optional = false } = listener;
  for (let attempt = 1; ; attempt++) {
    try {
      return await listenOn(listener, host ?? '::', context);
    } catch (error) {
      const missing = isMissingAddress(error);
      if (missing && host === undefined) return await listenOn(listener, '0.0.0.0', context);
      if (missing && optional) {
        context.log.debug(`DNS does not listen on ${host}: the machine does not have this address`);
        return undefined;
      }
      if (errnoOf(error) !== 'EADDRINUSE' || port !== 0 || attempt >= PORT_ATTEMPTS) throw error;
    }
  }
}

async function listenOn({ port, tls }: DnsListener, host: string, context: StreamContext): Promise<Listening> {
  const streams = await startStreams(host, port, tls, context);
  const address = hostPort({ host, port: streams.port });
  if (tls !== undefined) return { address, close: () => streams.close() };
  try {
    const udp = await startUdp(host, streams.port, context.handler, context.log);
    return { address, close: async () => void (await Promise.all([udp.close(), streams.close()])) };
  } catch (error) {
    await streams.close();
    throw error;
  }
}

/** The loopback addresses of both families that the machine has. */
export function loopbackListeners(port: number): readonly DnsListener[] {
  return ['127.0.0.1', '::1'].map((host) => ({ host, port, optional: true }));
}
