/** DNS servers and queries inside network namespaces. */
import { join } from 'node:path';
import { type Child, startChild } from './child.ts';
import type { DnsLoadReport, DnsLoadSetup } from './dns-load-main.ts';
import type { DnsServerSetup } from './dns-main.ts';
import { eventually } from './eventually.ts';
import type { Namespace } from './netns.ts';
import type { Owner } from './owner.ts';

export interface DnsQuery {
  readonly server: string;
  /** Default 53. */
  readonly port?: number;
  readonly name: string;
  /** Default: the family of the server's address. */
  readonly type?: 'A' | 'AAAA';
  readonly protocol: 'udp' | 'tcp';
  /** UDP only; default: a free one. */
  readonly sourcePort?: number;
  /** For a query that nobody answers. Default: 20 s. */
  readonly timeoutMs?: number | undefined;
}

export interface DnsReply {
  /** The response code, such as NOERROR. */
  readonly code: string;
  readonly addresses: readonly string[];
}

export interface DnsServerIn extends Child {
  /** The queries so far, as `<protocol> <name> <type>`. */
  queries(): readonly string[];
}

/** A DNS server that knows a few names; it listens at port 53 unless `port` says otherwise. */
export function startDnsIn(
  owner: Owner,
  namespace: Namespace,
  options: Omit<DnsServerSetup, 'port'> & { readonly label: string; readonly port?: number; readonly uid?: number },
): Promise<DnsServerIn> {
  const { label, uid = 0, port = 53, ...rest } = options;
  return startProgram(owner, label, namespace.command(asUser(uid, serverProgram({ ...rest, port }))));
}

/** The same outside of namespaces, at one address. */
export function startDns(
  owner: Owner,
  { address, ...rest }: Pick<DnsServerSetup, 'names' | 'port'> & { readonly address: string },
): Promise<DnsServerIn> {
  return startProgram(owner, address, serverProgram({ ...rest, addresses: [address] }));
}

function serverProgram(setup: DnsServerSetup): readonly string[] {
  return [process.execPath, join(import.meta.dirname, 'dns-main.ts'), JSON.stringify(setup)];
}

async function startProgram(owner: Owner, label: string, argv: readonly string[]): Promise<DnsServerIn> {
  const [command = '', ...args] = argv;
  const child = await startChild(owner, { name: `DNS server ${label}`, command, args });
  await eventually(() => {
    child.assertRunning();
    if (!child.output().includes('ready')) throw new Error('not listening yet');
  });
  const queries = () =>
    child
      .output()
      .split('\n')
      .filter((line) => /^(udp|tcp) /.test(line));
  return { ...child, queries };
}

/** Sends one query as a user and gives the reply; throws without one. */
export async function queryDns(namespace: Namespace, query: DnsQuery, uid = 0): Promise<DnsReply> {
  const program = [process.execPath, join(import.meta.dirname, 'dns-query-main.ts'), JSON.stringify(query)];
  const reply = JSON.parse(await namespace.run(...asUser(uid, program))) as DnsReply | { readonly error: string };
  if ('error' in reply) throw new Error(`${query.protocol} to ${query.server}: ${reply.error}`);
  return reply;
}

export interface DnsLoad {
  /** The last report. */
  report(): DnsLoadReport;
  /** Waits for this many more answers. */
  more(count: number): Promise<void>;
  stop(): Promise<unknown>;
}

/** Steady queries until the load is stopped. */
export async function startDnsLoad(owner: Owner, namespace: Namespace, setup: DnsLoadSetup): Promise<DnsLoad> {
  const program = [process.execPath, join(import.meta.dirname, 'dns-load-main.ts'), JSON.stringify(setup)];
  const [command = '', ...args] = namespace.command(program);
  const child = await startChild(owner, { name: 'DNS load', command, args });
  const report = (): DnsLoadReport => {
    const line = child.output().split('\n').at(-2);
    return line === undefined ? { answered: 0, failures: [] } : (JSON.parse(line) as DnsLoadReport);
  };
  return {
    report,
    async more(count) {
      const { answered } = report();
      await eventually(() => {
        child.assertRunning();
        if (report().answered < answered + count) throw new Error(`only ${report().answered - answered} answers`);
      });
    },
    stop: () => child.stop(),
  };
}

function asUser(uid: number, argv: readonly string[]): readonly string[] {
  return uid === 0 ? argv : ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', ...argv];
}
