/**
 * Proves that captured DNS queries arrive: a packet to port 53 of a name server of each family must reach the port of
 * the agent or of Envoy. While none of them runs, a socket of this process answers there with a value that proves its
 * origin; otherwise, the running one has to answer a query.
 */
import { randomBytes } from 'node:crypto';
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { isIPv6 } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { CtlError, messageOf } from '../../core/errors.ts';
import type { Redirection } from './types.ts';
import { RedirectionFault } from './validate.ts';

const DNS_PORT = 53;
/** A packet may be lost, or the server may not be ready yet. */
const RETRY_MS = 200;
const LOOPBACK = { udp4: '127.0.0.1', udp6: '::1' } as const;
type Type = keyof typeof LOOPBACK;

/** Resolves with what was proved, one line each. Rejects with CtlError when queries do not arrive. */
export async function validateDns({ dns, proxyUids }: Redirection, timeoutMs: number): Promise<readonly string[]> {
  if (dns === undefined) return [];
  if (proxyUids.includes(process.getuid?.() ?? -1))
    return ["DNS: not checked, because the proxy's queries are not captured"];
  const report: string[] = [];
  for (const type of ['udp4', 'udp6'] as const) {
    const server = dns.servers.find((each) => isIPv6(each) === (type === 'udp6'));
    if (server !== undefined) report.push(await prove(type, server, dns.port, timeoutMs));
  }
  return report;
}

async function prove(type: Type, server: string, port: number, timeoutMs: number): Promise<string> {
  const sign = randomBytes(16);
  const listener = await listen(type, port, sign);
  const path = `${server} port ${DNS_PORT} to port ${port}`;
  try {
    const answer = await ask(type, server, timeoutMs);
    if (listener === undefined && answer !== undefined) return `DNS: queries to ${server} are answered`;
    if (listener !== undefined && answer?.equals(sign) === true) return `DNS: queries go from ${path}`;
    const why = answer === undefined ? 'nothing answered' : 'arrived elsewhere';
    throw new RedirectionFault(`redirection does not work: DNS, from ${path}: ${why}`);
  } finally {
    listener?.close();
  }
}

/** Answers every packet with `sign`; undefined when another program listens at the port. */
async function listen(type: Type, port: number, sign: Buffer): Promise<Socket | undefined> {
  const socket = createSocket(type);
  socket.on('message', (_, from) => socket.send(sign, from.port, from.address));
  socket.bind(port, LOOPBACK[type]);
  try {
    await once(socket, 'listening');
    return socket;
  } catch (error) {
    socket.close();
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') return undefined;
    throw new CtlError('failed_precondition', `cannot validate redirection of DNS: ${messageOf(error)}`, {}, error);
  }
}

/** The first answer to a query for the root's name servers, which every server understands; undefined without one. */
async function ask(type: Type, server: string, timeoutMs: number): Promise<Buffer | undefined> {
  const socket = createSocket(type);
  // Without a route, or if a port is closed, there are errors instead of answers; the next attempt may succeed.
  socket.on('error', () => undefined);
  const { promise: answered, resolve } = Promise.withResolvers<Buffer>();
  socket.on('message', (message) => resolve(message));
  const done = new AbortController();
  try {
    for (let left = timeoutMs; left > 0; left -= RETRY_MS) {
      socket.send(ROOT_QUERY, DNS_PORT, server, () => undefined);
      const wait = delay(Math.min(left, RETRY_MS), undefined, { signal: done.signal }).catch(() => undefined);
      const answer = await Promise.race([answered, wait]);
      if (answer !== undefined) return answer;
    }
    return undefined;
  } finally {
    done.abort();
    socket.close();
  }
}

/** RFC 1035, 4.1: id, RD, one question; the root, type NS, class IN. */
const ROOT_QUERY = Buffer.from('4d45010000010000000000000000020001', 'hex');
