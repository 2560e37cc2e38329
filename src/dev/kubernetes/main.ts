/**
 * `npm run kubernetes`: a playground with a real Kubernetes API server, the definitions of deploy/crds and samples. It
 * prints the path of a kubeconfig and waits; nothing is left behind when it ends.
 *
 * Everything runs in a network namespace, so that Pods can have addresses and the host is not changed. The one port
 * outside is the API server's, on 127.0.0.1: this process passes connections on to it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { canOwnNetwork, createScope, freePort, type Owner, ownNetwork, tempDir } from '../../../test/harness/index.ts';
import { buildKubernetes, kubeconfig } from '../../../test/harness/kubernetes/index.ts';
import { createRelay } from '../demo/relay.ts';
import type { Ready, Start } from './messages.ts';

const HOST = '127.0.0.1';
const INSIDE = join(import.meta.dirname, 'inside.ts');

const USAGE = `usage: npm run kubernetes [-- options]

  (none)        starts a Kubernetes API server with the definitions of deploy/crds and samples, until Ctrl-C
  --port PORT   of the API server on ${HOST}; default: a free one
`;

const say = (line: string) => void process.stderr.write(`kubernetes: ${line}\n`);

/** How often to look whether the process that started this one is still there, in milliseconds. */
const PARENT_CHECK_MS = 500;

/** Stops on signals, and when whoever started it was killed without a chance to pass a signal on. */
function stopSignal(): AbortSignal {
  const stopping = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stopping.abort());
  const parent = process.ppid;
  setInterval(() => process.ppid === parent || stopping.abort(), PARENT_CHECK_MS).unref();
  return stopping.signal;
}

/** Settles when the process has ended. */
const exitOf = (child: ChildProcess) => new Promise<void>((resolve) => child.once('exit', () => resolve()));

/** Starts the inner process, and returns what it says once everything runs; rejects when it ends before. */
async function startInside(owner: Owner, start: Start): Promise<{ ready: Ready; exited: Promise<void> }> {
  const program = [process.execPath, INSIDE];
  const { command, args, env } = canOwnNetwork()
    ? ownNetwork(program)
    : { command: process.execPath, args: [INSIDE], env: {} };
  const child = spawn(command, args, {
    env: { ...process.env, ...env },
    // stdout is for what this process prints.
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const exited = exitOf(child);
  owner.after(async () => {
    child.kill('SIGTERM');
    await exited;
  });
  const ready = await new Promise<Ready>((resolve, reject) => {
    child.once('message', (message) => resolve(message as Ready));
    child.once('error', reject);
    child.once('exit', () => reject(new Error('it could not be started')));
    child.send(start);
  });
  return { ready, exited };
}

/** Passes connections to a port of the host on to the inner process. */
async function openPort(owner: Owner, port: number, path: string): Promise<void> {
  const relay = createRelay({ path });
  await new Promise<void>((resolve, reject) => relay.once('error', reject).listen(port, HOST, resolve));
  owner.after(() => {
    relay.close();
    relay.destroyAll();
  });
}

function describe(file: string, { withoutPods }: Ready): string {
  const kubectl = process.env.KUBECTL_PATH ?? 'kubectl';
  const pods = withoutPods === undefined ? '' : `\nNo Pods run (${withoutPods}).\n`;
  return `
A Kubernetes API server with the mesh's kinds and samples/kubernetes. Its kubeconfig:

  export KUBECONFIG=${file}
  ${kubectl} -n demo get pods,endpointslices,virtualservices
${pods}
Ctrl-C ends everything.
`;
}

async function run(owner: Owner, port: number | undefined, signal: AbortSignal): Promise<void> {
  const reason = await buildKubernetes({ report: say, signal });
  if (reason !== undefined) throw new Error(reason);
  const folder = await tempDir(owner);
  const socket = join(folder, 'api-server.sock');
  const stopped = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  const starting = startInside(owner, { socket });
  const inside = await Promise.race([starting, stopped]);
  if (inside === undefined) return void starting.catch(() => undefined);
  const outside = port ?? (await freePort(HOST));
  await openPort(owner, outside, socket);
  const { ca, token } = inside.ready;
  const file = join(folder, 'kubeconfig');
  await writeFile(file, kubeconfig({ url: `https://${HOST}:${outside}`, ca, credential: { token } }), { mode: 0o600 });
  process.stdout.write(describe(file, inside.ready));
  await Promise.race([stopped, inside.exited]);
  if (!signal.aborted) throw new Error('the control plane has ended');
  say('ending everything …');
}

function readPort(args: readonly string[]): { readonly help: boolean; readonly port: number | undefined } {
  const options = { port: { type: 'string' }, help: { type: 'boolean' } } as const;
  const { values } = parseArgs({ args: [...args], options });
  const port = values.port === undefined ? undefined : Number(values.port);
  if (port !== undefined && !(Number.isInteger(port) && port > 0 && port < 65_536))
    throw new Error(`--port: expected a port from 1 to 65535, got ${JSON.stringify(values.port)}`);
  return { help: values.help === true, port };
}

async function main(args: readonly string[]): Promise<number> {
  const signal = stopSignal();
  const scope = createScope();
  try {
    const { help, port } = readPort(args);
    if (help) process.stdout.write(USAGE);
    else await run(scope, port, signal);
    return 0;
  } catch (error) {
    // Asked to stop while starting: what failed then is of no interest.
    if (signal.aborted) return 0;
    say(error instanceof Error ? error.message : String(error));
    return 1;
  } finally {
    await scope.close();
  }
}

process.exitCode = await main(process.argv.slice(2));
