/** Probes and hooks of containers of the simulated kubelet. */
import { readFile } from 'node:fs/promises';
import { request as httpsRequest } from 'node:https';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { request } from '../../http.ts';
import type { ContainerProcess } from './process.ts';
import { type Container, type Handler, type HttpAction, messageOf, type Probe } from './types.ts';

/** `TCP_LISTEN` of the kernel, as proc(5) writes states of /proc/net/tcp. */
const LISTEN = '0A';

/** Open ports in the network namespace of a process. */
export async function listeningPorts(pid: number): Promise<ReadonlySet<number>> {
  const tables = await Promise.all(
    ['tcp', 'tcp6'].map((name) => readFile(`/proc/${pid}/net/${name}`, 'utf8').catch(() => '')),
  );
  const rows = tables.flatMap((table) =>
    table
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/)),
  );
  const listening = rows.filter(([, , , state]) => state === LISTEN);
  return new Set(listening.map(([, local = '']) => Number.parseInt(local.slice(local.lastIndexOf(':') + 1), 16)));
}

/** Where a handler acts. */
export interface Target {
  readonly container: Container;
  readonly process: ContainerProcess;
  readonly podIP: string;
}

function portOf({ container: { name, ports = [] } }: Target, port: number | string): number {
  const number = Number(port);
  if (!Number.isNaN(number)) return number;
  const named = ports.find((candidate) => candidate.name === port);
  if (named === undefined) throw new Error(`container ${name} has no port named ${port}`);
  return named.containerPort;
}

/** The status of an HTTPS answer; as a kubelet, it verifies no certificate. */
function httpsStatus(
  options: { host: string; port: number; path: string; headers: Record<string, string> },
  ms: number,
) {
  return new Promise<number>((resolve, reject) => {
    const signal = AbortSignal.timeout(ms);
    const outgoing = httpsRequest({ ...options, agent: false, rejectUnauthorized: false, signal });
    outgoing.once('error', reject);
    outgoing.once('response', (incoming) => {
      incoming.resume();
      resolve(incoming.statusCode ?? 0);
    });
    outgoing.end();
  });
}

async function httpGet(action: HttpAction, target: Target, timeoutMs: number): Promise<void> {
  const { host = target.podIP, path: asked = '/', scheme, httpHeaders = [] } = action;
  const path = asked.startsWith('/') ? asked : `/${asked}`;
  const headers = Object.fromEntries(httpHeaders.map(({ name, value }) => [name, value]));
  const port = portOf(target, action.port);
  const status =
    scheme === 'HTTPS'
      ? await httpsStatus({ host, port, path, headers }, timeoutMs)
      : (await request({ address: host, port, path, headers, timeoutMs })).status;
  if (status < 200 || status >= 400) throw new Error(`GET ${host}:${port}${path} answered ${status}`);
}

function tcpConnect(host: string, port: number, timeoutMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, timeout: timeoutMs });
    socket.once('error', reject);
    socket.once('timeout', () => socket.destroy(new Error(`${host}:${port} is not connected in time`)));
    socket.once('connect', () => {
      socket.destroy();
      resolve();
    });
  });
}

/** Does what a probe or hook says; rejects when that fails. */
export async function handle(handler: Handler, target: Target, timeoutMs: number): Promise<void> {
  const { httpGet: action, tcpSocket, exec, sleep } = handler;
  if (action !== undefined) await httpGet(action, target, timeoutMs);
  else if (tcpSocket !== undefined)
    await tcpConnect(tcpSocket.host ?? target.podIP, portOf(target, tcpSocket.port), timeoutMs);
  else if (exec !== undefined) await target.process.execute(exec.command, timeoutMs);
  else if (sleep !== undefined) await delay(sleep.seconds * 1_000);
  else throw new Error(`the simulated kubelet knows no handler of ${Object.keys(handler).join(', ')}`);
}

/** Defaults of the API, seconds. */
const [PERIOD, TIMEOUT, FAILURES] = [10, 1, 3];

/** Why the probe fails; undefined when it succeeds. A problem of the probe itself is a failure too. */
export async function probeFailure(probe: Probe, target: Target): Promise<string | undefined> {
  return handle(probe, target, (probe.timeoutSeconds ?? TIMEOUT) * 1_000).then(() => undefined, messageOf);
}

/** How long a probe may fail before the container is restarted, in ms: probes here are more frequent than they ask. */
export const patienceMs = ({ initialDelaySeconds = 0, periodSeconds, failureThreshold }: Probe): number =>
  (initialDelaySeconds + (periodSeconds ?? PERIOD) * (failureThreshold ?? FAILURES)) * 1_000;

/** How many probes have to fail one after the other, so that a ready container is unready; without a probe, one look. */
export const failuresOf = (probe: Probe | undefined): number =>
  probe === undefined ? 1 : (probe.failureThreshold ?? FAILURES);
