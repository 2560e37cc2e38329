/**
 * Proves that redirection works in every redirected address family: connections to a port without a listener must be
 * accepted at the proxy's ports. While no proxy runs, servers of this process listen there and send a sign that proves
 * it was them; a running proxy has to accept the connections itself.
 *
 *   inbound   proxy's user ─▶ own address:probe port ─▶ capture port
 *   outbound  other user ─▶ an address elsewhere:probe port ─▶ proxy port
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { BlockList, createServer, isIPv6, type Server } from 'node:net';
import { networkInterfaces } from 'node:os';
import { CtlError, messageOf } from '../../core/errors.ts';
import { isLocalhost } from './options.ts';
import type { Family, Redirection } from './types.ts';

export interface ValidationOptions {
  readonly families: readonly Family[];
  readonly redirection: Redirection;
  /** A port without a listener. */
  readonly probePort: number;
  readonly timeoutMs: number;
}

/** A connection and the port where it must arrive. */
interface Probe {
  readonly what: string;
  readonly address: string;
  readonly arrivesAt: number;
  /** The user that connects; undefined: the user of this process. */
  readonly as: { readonly uid: number; readonly gid: number } | undefined;
}

/** Traffic is not redirected as it should be, or this could not be found out. */
export class RedirectionFault extends CtlError {
  constructor(message: string) {
    super('failed_precondition', message);
  }
}

/** Addresses reserved for documentation (RFC 5737, RFC 3849): no other host can answer. */
const ELSEWHERE: Readonly<Record<Family, string>> = { ipv4: '192.0.2.1', ipv6: '2001:db8::1' };

/**
 * Connects repeatedly until it gets an answer, prints it and ends: `node -e CLIENT host port timeoutMs await`, where
 * `await` is `data` or, for a proxy that sends nothing, `connect`. A separate process, because the rules depend on the
 * user of a connection.
 */
const CLIENT = `
const [host, port, timeout, awaited] = process.argv.slice(1);
const end = Date.now() + Number(timeout);
let last = 'nothing answered';
const attempt = () => {
  const socket = require('node:net').connect({ host, port: Number(port) });
  const expired = () => socket.destroy(new Error('nothing answered'));
  socket.setTimeout(Math.max(1, end - Date.now()), expired);
  socket.once(awaited, (data = '') => process.stdout.write(data, () => process.exit(0)));
  socket.once('error', (error) => { last = error.code === 'ECONNREFUSED' ? 'refused' : error.message; });
  socket.once('close', () => {
    if (Date.now() + 100 < end && !/UNREACH/.test(last)) return setTimeout(attempt, 100);
    process.stdout.write(last, () => process.exit(1));
  });
};
attempt();
`;

/**
 * Resolves with the results, one line each, including what could not be tested. Rejects with RedirectionFault when
 * redirection does not work or nothing could be tested.
 */
export async function validateRedirection(options: ValidationOptions): Promise<readonly string[]> {
  const { redirection, families, probePort } = options;
  for (const family of families) await mustBeFree(family, probePort);
  const probes = families.flatMap((family) => [
    { family, probe: inboundProbe(family, redirection) },
    { family, probe: outboundProbe(family, options) },
  ]);
  const sign = randomBytes(16).toString('hex');
  const servers = new Map<string, Server | 'in use'>();
  try {
    for (const { family, probe } of probes) {
      if (typeof probe === 'string') continue;
      const key = socketKey(family, probe);
      if (!servers.has(key)) servers.set(key, await listen(family, probe.arrivesAt, sign));
    }
    // A proxy that listens in one family must listen in the other as well: there is no substitute for it.
    const proxyRuns = [...servers.values()].includes('in use');
    if (proxyRuns) await closeAll(servers);
    const report: Proof[] = [];
    for (const { family, probe } of probes) {
      if (typeof probe === 'string') {
        report.push({ isProved: false, line: probe });
        continue;
      }
      const listens = servers.get(socketKey(family, probe)) === 'in use';
      report.push(await prove(family, probe, options, proxyRuns ? { listens } : { sign }));
    }
    const lines = report.map(({ line }) => line);
    if (report.some(({ isProved }) => isProved)) return lines;
    throw new RedirectionFault(`redirection cannot be tested: ${lines.join('; ')}`);
  } finally {
    await closeAll(servers);
  }
}

/** The result of a probe as a line. */
interface Proof {
  readonly isProved: boolean;
  readonly line: string;
}

function socketKey(family: Family, { arrivesAt }: Probe): string {
  return `${family} ${arrivesAt}`;
}

async function closeAll(servers: ReadonlyMap<string, Server | 'in use'>): Promise<void> {
  const open = [...servers.values()].filter((server) => server !== 'in use').filter(({ listening }) => listening);
  await Promise.all(open.map((server) => new Promise((resolve) => server.close(resolve))));
}

/** A program that listens at the probe port would answer without any redirection. */
async function mustBeFree(family: Family, probePort: number): Promise<void> {
  const server = await listen(family, probePort, '');
  if (server === 'in use') {
    const message = `--iptables-probe-port: something listens at port ${probePort}, so redirection cannot be tested`;
    throw new CtlError('failed_precondition', message);
  }
  await new Promise((resolve) => server.close(resolve));
}

function inboundProbe(family: Family, { inboundPort, proxyUids, proxyGids }: Redirection): Probe | string {
  const what = `inbound ${family}`;
  const address = ownAddress(family);
  if (address === undefined) return `${what}: not checked, because there is no address other than loopback`;
  const [uid = 0] = proxyUids;
  if (proxyUids.includes(process.getuid?.() ?? -1)) return { what, address, arrivesAt: inboundPort, as: undefined };
  if (process.getuid?.() !== 0) return `${what}: not checked, because only root and the proxy's user can check it`;
  return { what, address, arrivesAt: inboundPort, as: { uid, gid: proxyGids[0] ?? uid } };
}

function outboundProbe(family: Family, { redirection, probePort }: ValidationOptions): Probe | string {
  const what = `outbound ${family}`;
  const { cidrs, cidrsExcluded, outboundPortsExcluded, outboundPorts, proxyUids, proxyGids, proxyPort } = redirection;
  const isProxy = proxyUids.includes(process.getuid?.() ?? -1) || proxyGids.includes(process.getgid?.() ?? -1);
  if (isProxy) return `${what}: not checked, because the proxy's user is not redirected`;
  const here = (cidr: string) => isIPv6(cidr.split('/')[0] ?? '') === (family === 'ipv6');
  const first =
    cidrs === '*' || outboundPorts.includes(probePort)
      ? ELSEWHERE[family]
      : cidrs.find((cidr) => here(cidr) && !isLocalhost(cidr))?.split('/')[0];
  const left = cidrs === '*' && first !== undefined && covers(cidrsExcluded.filter(here), first, family);
  if (first === undefined || left || outboundPortsExcluded.includes(probePort)) return `${what}: not redirected`;
  return { what, address: first, arrivesAt: proxyPort, as: undefined };
}

function covers(cidrs: readonly string[], address: string, family: Family): boolean {
  const list = new BlockList();
  for (const cidr of cidrs) {
    const [base = '', bits] = cidr.split('/');
    list.addSubnet(base, Number(bits), family);
  }
  return list.check(address, family);
}

/**
 * The expected answer: the sign of a server of this process, or that of the proxy, which may not listen in this family.
 */
type Answering = { readonly sign: string } | { readonly listens: boolean };

async function prove(
  family: Family,
  probe: Probe,
  { probePort, timeoutMs }: ValidationOptions,
  by: Answering,
): Promise<Proof> {
  const awaited = 'sign' in by ? 'data' : 'connect';
  const { arrived, output } = await connectFrom(probe, probePort, timeoutMs, awaited);
  const path = `${probe.address} port ${probePort} to port ${probe.arrivesAt}`;
  const proved = (line: string): Proof => ({ isProved: true, line: `${probe.what}: ${line}` });
  if (arrived && !('sign' in by)) return proved(`the proxy accepts connections from ${path}`);
  if (arrived && 'sign' in by && output === by.sign) return proved(`connections go from ${path}`);
  // Without a route a connection is refused before the rules apply.
  if (/ENETUNREACH|EHOSTUNREACH/.test(output))
    return { isProved: false, line: `${probe.what}: not checked, because there is no route to ${probe.address}` };
  const deaf = 'listens' in by && !by.listens;
  const instead = deaf
    ? `the proxy is running and does not listen there over ${family}`
    : arrived
      ? 'arrived elsewhere'
      : output;
  throw new RedirectionFault(`redirection does not work: ${probe.what}, from ${path}: ${instead}`);
}

/** Listens on all addresses of one family, and sends `sign` to each client. */
async function listen(family: Family, port: number, sign: string): Promise<Server | 'in use'> {
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy());
    socket.end(sign);
  });
  const host = family === 'ipv6' ? '::' : '0.0.0.0';
  server.listen({ host, port, ipv6Only: family === 'ipv6' });
  try {
    await once(server, 'listening');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') return 'in use';
    const why = messageOf(error);
    throw new CtlError('failed_precondition', `cannot validate redirection: ${why}`, {}, error);
  }
  return server;
}

async function connectFrom(
  { address, as }: Probe,
  port: number,
  timeoutMs: number,
  awaited: 'data' | 'connect',
): Promise<{ readonly arrived: boolean; readonly output: string }> {
  const child = spawn(process.execPath, ['-e', CLIENT, address, String(port), String(timeoutMs), awaited], {
    stdio: ['ignore', 'pipe', 'ignore'],
    // The other user may not have access to the working directory of this process.
    cwd: '/',
    env: {},
    ...as,
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    output += chunk;
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { arrived: code === 0, output };
}

function ownAddress(family: Family): string | undefined {
  const all = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const wanted = family === 'ipv6' ? 'IPv6' : 'IPv4';
  // A link-local address is not usable without its interface.
  return all.find(({ family: name, internal, address }) => name === wanted && !internal && !/^fe80:/i.test(address))
    ?.address;
}
