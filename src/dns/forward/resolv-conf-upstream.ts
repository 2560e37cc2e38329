/** The servers of resolv.conf: UDP, TCP for truncated responses, failed servers last. */
import { connect } from 'node:net';
import { CtlError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { hostPort } from '../../core/network/listen.ts';
import { isTruncated } from '../wire/reply.ts';
import type { ResolvConf } from './resolv-conf.ts';
import { createStreamUpstream, type StreamUpstream } from './stream-upstream.ts';
import { exchangeUdp } from './udp-exchange.ts';
import type { Upstream, UpstreamSource } from './upstream.ts';

export interface ResolvConfUpstreamOptions {
  readonly conf: { current(): ResolvConf };
  readonly port?: number;
  /**
   * Whether this process itself listens on an address: it is not queried, because the query would return to this
   * process.
   */
  isOwn(host: string, port: number): boolean;
  readonly log: Log;
}

const DNS_PORT = 53;
/** Idle timeout of connections, ms: short, because some servers dedicate a process to each connection. */
const TCP_IDLE_MS = 1000;
/** How long a server that did not respond is tried after the others, ms. */
const FAILED_MS = 30_000;

interface Server extends Upstream {
  readonly host: string;
  failedUntil: number;
  readonly stream: StreamUpstream;
}

export function resolvConfUpstream(options: ResolvConfUpstreamOptions): UpstreamSource {
  const { conf, port = DNS_PORT, isOwn, log } = options;
  const sent = new Map<number, number>();
  const servers = new Map<string, Server>();
  let [used, turn, warned]: [ResolvConf | undefined, number, boolean] = [undefined, 0, false];

  const update = (current: ResolvConf): void => {
    used = current;
    for (const [host, server] of servers)
      if (!current.servers.includes(host)) {
        server.stream.close();
        servers.delete(host);
      }
    for (const host of current.servers) if (!servers.has(host)) servers.set(host, createServer(host, port, sent, conf));
  };
  const foreign = (current: ResolvConf): Server[] => {
    const found = current.servers.flatMap((host) => (isOwn(host, port) ? [] : (servers.get(host) ?? [])));
    if (found.length < current.servers.length && !warned) {
      warned = true;
      log.warn('resolv.conf lists this DNS server itself; the entry is ignored');
    }
    return found;
  };
  return {
    current() {
      const current = conf.current();
      if (current !== used) update(current);
      const found = foreign(current);
      if (found.length === 0) throw new CtlError('unavailable', 'resolv.conf has no usable DNS server');
      const first = current.rotate ? turn++ % found.length : 0;
      const time = performance.now();
      const ordered = [...found.slice(first), ...found.slice(0, first)];
      const failed = ordered.filter(({ failedUntil }) => failedUntil > time);
      return {
        upstreams: [...ordered.filter(({ failedUntil }) => failedUntil <= time), ...failed],
        attempts: current.attempts,
        timeoutMs: current.timeoutMs,
      };
    },
    sent: (local, id) => sent.get(local) === id,
    close() {
      for (const { stream } of servers.values()) stream.close();
    },
  };
}

function createServer(host: string, port: number, sent: Map<number, number>, conf: { current(): ResolvConf }): Server {
  const name = hostPort({ host, port });
  const stream = createStreamUpstream({
    name: `${name} over TCP`,
    ready: 'connect',
    idleMs: TCP_IDLE_MS,
    dial: () => connect(port, host),
  });
  const server: Server = {
    name,
    host,
    stream,
    failedUntil: 0,
    async exchange(request, timeoutMs) {
      try {
        if (conf.current().tcp) return await stream.exchange(request, timeoutMs);
        const response = await exchangeUdp(request, { host, port, timeoutMs, sent });
        if (!isTruncated(response.message)) return response;
        // If the server does not support TCP, the client gets the truncated response.
        return await stream.exchange(request, timeoutMs).catch(() => response);
      } catch (error) {
        server.failedUntil = performance.now() + FAILED_MS;
        throw error;
      }
    },
  };
  return server;
}
