/**
 * `npm run kubernetes`: a playground with a real Kubernetes API server, `ctl-discovery` that reads it, Pods and a
 * gateway. It prints how to use them and runs until Ctrl-C; nothing is left behind.
 *
 * Everything runs in a network namespace, so that Pods can have addresses and the host is not changed. Three ports are
 * outside, on 127.0.0.1: this process passes their connections on.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { canOwnNetwork, createScope, freePorts, type Owner, ownNetwork, tempDir } from '../../test/harness/index.ts';
import { buildHelm, buildKubernetes, kubeconfig } from '../../test/harness/kubernetes/index.ts';
import { createRelay } from '../demo/relay.ts';
import type { Ready, Start } from './messages.ts';

const HOST = '127.0.0.1';
const INSIDE = join(import.meta.dirname, 'inside.ts');

const USAGE = `usage: npm run kubernetes [-- options]

  (none)        starts a Kubernetes API server with deploy/crds and samples, ctl-discovery and a gateway, until Ctrl-C
  --port PORT   of the API server on ${HOST}; default: a free one
`;

const say = (line: string) => void process.stderr.write(`kubernetes: ${line}\n`);

/** How often to look whether the process that started this one is still there, in milliseconds. */
const PARENT_CHECK_MS = 500;

/** Stops on signals, and when its parent process was killed and could not pass a signal on. */
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
async function openPort(owner: Owner, path: string, port: number): Promise<number> {
  const relay = createRelay({ path });
  await new Promise<void>((resolve, reject) => relay.once('error', reject).listen(port, HOST, resolve));
  owner.after(() => {
    relay.close();
    relay.destroyAll();
  });
  return port;
}

interface Ports {
  readonly debug: number;
  readonly gateway: number | undefined;
}

/** More variables of the commands in the README: where the gateway is, and kubectl's folder. */
function exportsOf(gateway: number | undefined): string {
  const address = gateway === undefined ? '' : ` GATEWAY=${HOST}:${gateway}`;
  const kubectl = process.env.KUBECTL_PATH ?? '';
  return kubectl === '' ? address : `${address} PATH=${dirname(kubectl)}:$PATH`;
}

/** The debug pages of a Pod are for callers of its own namespace. */
const debugToken = (kubectl: string) => `They need a token in the header \`Authorization: Bearer\`:

  ${kubectl} -n mesh-system create token ctl-discovery --audience mesh-ca
`;

function describe(kubeconfigFile: string, { debug, gateway }: Ports, { withoutPods }: Ready): string {
  const kubectl = process.env.KUBECTL_PATH ?? 'kubectl';
  const pods =
    gateway === undefined
      ? `No Pods run: ${withoutPods}.`
      : `The gateway sends requests to the Pods of \`hello\`; scale them, or change the routes, and watch the answers:

  curl ${HOST}:${gateway}/hello
  ${kubectl} -n demo scale deployment hello-v1 --replicas=3
  ${kubectl} -n demo edit virtualservice front`;
  return `
A Kubernetes API server with the mesh's kinds and samples/kubernetes:

  export KUBECONFIG=${kubeconfigFile}${exportsOf(gateway)}
  ${kubectl} -n demo get pods,endpointslices,virtualservices

${pods}

The debug pages of ctl-discovery: http://${HOST}:${debug}/debug/
${withoutPods === undefined ? debugToken(kubectl) : ''}
Ctrl-C ends everything.
`;
}

async function run(owner: Owner, apiPort: number | undefined, signal: AbortSignal): Promise<void> {
  const build = { report: say, signal };
  const reason = (await buildKubernetes(build)) ?? (await buildHelm(build));
  if (reason !== undefined) throw new Error(reason);
  const folder = await tempDir(owner);
  const stopped = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  const starting = startInside(owner, { folder });
  const inside = await Promise.race([starting, stopped]);
  if (inside === undefined) return void starting.catch(() => undefined);
  const { ca, token, sockets } = inside.ready;
  const [anyPort = 0, debugPort = 0, gatewayPort = 0] = await freePorts(3, HOST);
  const port = await openPort(owner, sockets.api, apiPort ?? anyPort);
  const debug = await openPort(owner, sockets.debug, debugPort);
  const gateway = sockets.gateway && (await openPort(owner, sockets.gateway, gatewayPort));
  const file = join(folder, 'kubeconfig');
  await writeFile(file, kubeconfig({ url: `https://${HOST}:${port}`, ca, credential: { token } }), { mode: 0o600 });
  process.stdout.write(describe(file, { debug, gateway: gateway || undefined }, inside.ready));
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
