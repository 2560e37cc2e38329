/**
 * The command `ctl-agent proxy`: settings → bootstrap → Envoy, supervised; readiness, probes and metrics in addition; a
 * signal drains and terminates it. Envoy is started before code that it does not need is loaded. With DISABLE_ENVOY,
 * Envoy is not run, and applications use the certificates and the xDS proxy themselves.
 */
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { buildInfo } from '../core/build-info.ts';
import { CtlError, messageOf } from '../core/errors.ts';
import { readFirst } from '../core/network/body.ts';
import { type HttpCall, httpCall } from '../core/network/http-call.ts';
import { Closers, type Part } from '../core/process/closers.ts';
import { getScope } from '../logging/index.ts';
import type { JsonObject } from '../protobuf/index.ts';
import type { AgentSettings, Environment } from '../settings/index.ts';
import { writeGrpcBootstrap } from './bootstrap/grpc.ts';
import type { Credentials } from './credentials/index.ts';
import { createDnsPart, type DnsPart } from './dns/part.ts';
import { CONNECTIONS_STATS, connectionsIn } from './ending/connections.ts';
import { type DrainTime, drainAndEnd } from './ending/drain.ts';
import { type EndRequests, watchEndRequests } from './ending/end-requests.ts';
import { envoyArguments } from './envoy/command.ts';
import { createListenerRefusals, type ListenerRefusals } from './envoy/listener-refusals.ts';
import { endOrphanProcess, noteEnvoy } from './envoy/orphan-process.ts';
import { startEnvoyProcess } from './envoy/process.ts';
import { type EnvoyEnd, type Supervisor, superviseEnvoy, withoutEnvoy } from './envoy/supervisor.ts';
import { checkReachable, makeFolder } from './folder.ts';
import { createOwnReadiness, createReadiness, type Readiness } from './health/readiness.ts';
import { startHealthReports } from './health/report.ts';
import { watchReadiness } from './health/watch.ts';
import { createLazyConnection } from './lazy-connection.ts';
import { loadCredentials, startSts } from './lazy-credentials.ts';
import { type AgentMetrics, createAgentMetrics } from './metrics/metrics.ts';
import { type AgentPlan, planAgent } from './plan.ts';
import { watchAddresses } from './settings/watch-addresses.ts';
import { thisMachine } from './settings/workload-address.ts';
import { NO_IDENTITY, type ProxyRole, type WorkloadIdentity } from './types.ts';

/** Labels of the pod, written by the orchestrator's downward API. */
const LABEL_FILE = './etc/mesh/pod/labels';
/** A slower admin interface counts as unhealthy; probers wait a second by default. */
const ADMIN_TIMEOUT_MS = 800;
/** Requests to drain wait for Envoy's main thread, which may be busy with a large configuration. */
const DRAIN_CALL_TIMEOUT_MS = 5_000;
const MAX_ADMIN_ANSWER = 64 * 1024;

/** Node.js only waits for its own children. */
const AS_FIRST_PROCESS =
  'the agent is process 1, and does not reap orphaned processes: start it with an init process such as tini';

const now = (): number => performance.now();

const sleep = (ms: number, signal: AbortSignal): Promise<unknown> =>
  // An aborted sleep is not a failure.
  delay(ms, undefined, { signal }).catch(() => undefined);

/** The inputs of the parts of the agent. */
interface Agent {
  readonly plan: AgentPlan;
  readonly settings: AgentSettings;
  readonly env: Environment;
  readonly metrics: AgentMetrics;
  readonly closers: Closers;
}

/** Runs the agent until a signal or Envoy's end. Returns the exit code. Rejects with a CtlError of one line. */
export async function runAgent(role: ProxyRole, settings: AgentSettings, env: Environment): Promise<number> {
  const labelFile = await readFile(LABEL_FILE, 'utf8').catch(() => '');
  const plan = await planAgent(role, settings, env, labelFile);
  const log = getScope('default');
  for (const line of plan.warnings) log.warn(line);
  if (process.pid === 1) log.warn(AS_FIRST_PROCESS);
  const metrics = createAgentMetrics();
  const build = buildInfo();
  metrics.set('mesh_build', 1, {
    component: 'ctl-agent',
    version: build.version,
    revision: build.revision,
    tag: build.tag,
  });
  const closers = new Closers(log);
  try {
    return await runParts({ plan, settings, env, metrics, closers });
  } finally {
    await closers.close();
  }
}

async function runParts(agent: Agent): Promise<number> {
  const { plan, env, metrics, closers } = agent;
  const refusals = createListenerRefusals(plan.neededListeners);
  const dns = createDnsPart(plan.dns);
  const end = closers.use(watchEndRequests());
  const credentials = await loadCredentials(plan.credentials, closers.closing);
  metrics.include(credentials.metrics);
  const [configPath, identity] = await Promise.all([
    plan.runsEnvoy ? writeBootstrap(plan.configFolder, plan.bootstrap) : undefined,
    startIdentity(agent, credentials),
    writeGrpcBootstrap(plan.grpcBootstrap),
  ]);
  metrics.include(identity.metrics);
  const readiness = readinessOf(plan, identity, refusals, dns);
  const supervisor =
    configPath === undefined ? withoutEnvoy() : await startEnvoy(agent, configPath, readiness, refusals);
  // Envoy still runs when a part of the agent cannot be started, and is not to notice that the others end.
  closers.closing.addEventListener('abort', () => {
    supervisor.retire();
    supervisor.signal('SIGKILL');
    // From then on, signals terminate the process at once, even if another part takes long to stop.
    void supervisor.ended.catch(() => undefined).then(end.close);
  });
  closers.add(async () => void (await supervisor.ended.catch(() => undefined)));
  const connection = createLazyConnection(plan.xds, identity, metrics, closers);
  // Envoy connects to the proxy when it has started.
  if (plan.xds.local !== undefined) await connection.get();
  await dns.start({ connection, identity, metrics, closers, env, now });
  const reports = { connection, proxy: readiness.check, sleep, log: getScope('default') };
  const health = closers.use(await startHealthReports(plan.workloadProbe, reports));
  closers.use(await startServers(plan, readiness, metrics, end.request));
  closers.use(await startSts(plan.stsPort, credentials));
  const looking = new AbortController();
  closers.add(() => looking.abort());
  look(plan, readiness, looking.signal);

  const first = await Promise.race([supervisor.ended, end.requested]);
  if (first.kind !== 'requested') return exitCode(first);
  readiness.draining();
  health.draining();
  looking.abort();
  supervisor.retire();
  // An Envoy that was never ready has no connections to drain.
  const drains = !first.now && (await readiness.hasServed());
  await drain(plan, supervisor, end, drains ? plan.drainTime : { until: 'time', ms: 0 });
  return 0;
}

function readinessOf(plan: AgentPlan, identity: WorkloadIdentity, refusals: ListenerRefusals, dns: DnsPart): Readiness {
  if (!plan.runsEnvoy) return createOwnReadiness(() => identity.missing() ?? dns.missing());
  return createReadiness({
    admin: (path) => admin(plan, path),
    needed: plan.neededListeners,
    requirement: plan.listenerRequirement,
    refused: refusals.current,
    others: dns.missing,
    awaited: () => {
      const missing = identity.secrets?.missing();
      return missing === undefined ? undefined : `the workload has no certificate: ${missing}`;
    },
    now,
  });
}

/** Starts fetching and serving the workload's certificates, if it has any. */
async function startIdentity({ plan, settings, closers }: Agent, { token }: Credentials): Promise<WorkloadIdentity> {
  if (plan.identity === undefined) return NO_IDENTITY;
  const { startAgentIdentity } = await import('./identity/index.ts');
  return closers.use(await startAgentIdentity({ ...plan.identity, settings, token }));
}

/** Logs what the proxy waits for, and changes of the machine's addresses. */
function look(plan: AgentPlan, { check }: Readiness, signal: AbortSignal): void {
  const log = getScope('default');
  const { host, port } = plan.controlPlane;
  const controlPlane = `${host}:${port}`;
  void watchReadiness({ check, admin: (path) => admin(plan, path), controlPlane, now, sleep, log }, signal);
  if (!plan.workload.followsMachine) return;
  const { addresses: reported } = plan.workload;
  void watchAddresses({ reported, current: () => thisMachine().addresses, sleep, log }, signal);
}

async function startEnvoy(
  { plan, env, metrics }: Agent,
  configPath: string,
  readiness: Readiness,
  refusals: ListenerRefusals,
): Promise<Supervisor> {
  const log = getScope('default');
  await endOrphanProcess(plan.configFolder, configPath, log);
  const args = envoyArguments({ ...plan.envoy, configPath });
  const supervisor = superviseEnvoy({
    start: (onLine) =>
      startEnvoyProcess({ binary: plan.envoy.binary, args, env: { ...plan.envoyEnv, ...env }, onLine }),
    now,
    sleep,
    random: Math.random,
    log,
    passOn: (line) => void process.stderr.write(`${line}\n`),
    onLog: refusals.see,
    onStart(run) {
      metrics.add('envoy_starts_total');
      refusals.clear();
      readiness.restarted();
      const sinceStartMs = run === 1 ? Math.round(performance.now()) : undefined;
      const pid = supervisor.pid();
      log.info('Envoy has started', { run, pid, sinceStartMs });
      if (pid !== undefined) noteEnvoy(plan.configFolder, pid);
    },
  });
  // Awaited later; until then a rejection must not count as unhandled.
  supervisor.ended.catch(() => undefined);
  // Whenever the agent's process exits, unless it is killed: otherwise Envoy would continue to run without an agent and
  // keep its ports.
  process.once('exit', () => supervisor.signal('SIGKILL'));
  return supervisor;
}

/** Loads and starts the HTTP servers. */
async function startServers(
  plan: AgentPlan,
  readiness: Readiness,
  metrics: AgentMetrics,
  quit: (now: boolean) => void,
): Promise<Part> {
  const [{ startStatusServers }, { scrapeFailures, serveMerged }] = await Promise.all([
    import('./health/server.ts'),
    import('./metrics/scrape/merge.ts'),
  ]);
  const { app, appHost } = plan;
  const adminPort = plan.runsEnvoy ? plan.adminPort : undefined;
  const failures = scrapeFailures(getScope('default'));
  const deps = { adminPort, app, appHost, metrics, failures };
  return startStatusServers(plan.ports, {
    readiness,
    probes: plan.probes,
    serveMetrics: ({ headers }, response) => serveMerged(headers.accept, response, deps),
    quit,
  });
}

function drain(plan: AgentPlan, supervisor: Supervisor, end: EndRequests, time: DrainTime): Promise<void> {
  const log = getScope('default');
  if (time.until !== 'time') log.info('draining until there are no connections', { atLeastMs: time.minimumMs });
  else if (time.ms > 0) log.info('draining', { forMs: time.ms });
  const post = async (path: string, signal: AbortSignal): Promise<void> => {
    if (supervisor.pid() === undefined) return;
    const { status, text } = await adminCall(plan, path, { method: 'POST', timeoutMs: DRAIN_CALL_TIMEOUT_MS, signal });
    if (status !== 200) throw new CtlError('unavailable', `${path} returned HTTP ${status}: ${text.trim()}`);
  };
  // Requests that the application still sends while it ends use the outbound listeners.
  const inboundOnly = plan.role === 'sidecar';
  return drainAndEnd(time, {
    discourage: async (signal) => {
      // First, health checks fail, so that callers choose other endpoints; then, listeners notify connected clients.
      await post('/healthcheck/fail', signal);
      await post(`/drain_listeners?graceful${inboundOnly ? '&inboundonly' : ''}`, signal);
    },
    closeListeners: (signal) => post(`/drain_listeners${inboundOnly ? '?inboundonly' : ''}`, signal),
    connections: async () => {
      if (!plan.runsEnvoy) return 0;
      const { status, text } = await admin(plan, CONNECTIONS_STATS);
      if (status !== 200) throw new CtlError('unavailable', `the request for statistics returned HTTP ${status}`);
      return connectionsIn(text, plan.ports.prometheus);
    },
    envoyEnded: supervisor.ended.catch(() => undefined),
    forced: end.forced,
    signal: supervisor.signal,
    sleep,
    log,
  });
}

function exitCode(end: EnvoyEnd): number {
  switch (end.kind) {
    case 'quit':
    case 'stopped':
      getScope('default').info('Envoy has quit');
      return 0;
    case 'rejected':
      throw new CtlError('failed_precondition', `Envoy rejects its bootstrap: ${end.reason}`);
    case 'failed':
      throw new CtlError(
        'unavailable',
        `Envoy has exited ${end.failures} times in a row, the last time with ${end.reason}`,
      );
  }
}

async function admin(plan: AgentPlan, path: string): Promise<{ readonly status: number; readonly text: string }> {
  if (!plan.runsEnvoy) throw new CtlError('unavailable', 'Envoy is not running');
  return adminCall(plan, path, { timeoutMs: ADMIN_TIMEOUT_MS });
}

/** The status and the beginning of the text. */
function adminCall({ adminPort }: AgentPlan, path: string, options: Omit<HttpCall, 'to'>) {
  return httpCall({ to: { port: adminPort, path }, ...options }, async (response) => {
    const body = await readFirst(MAX_ADMIN_ANSWER, response);
    return { status: response.statusCode ?? 0, text: body.toString('utf8') };
  });
}

/**
 * Writes the bootstrap file into the folder, which is created if needed. A temporary file is renamed, so that Envoy
 * never reads half of it. Returns the file's path. Throws a CtlError when that fails.
 */
async function writeBootstrap(folder: string, content: JsonObject): Promise<string> {
  const path = join(folder, 'envoy-rev0.json');
  try {
    await makeFolder(folder);
    // Templates and overrides may contain credentials.
    await writeFile(`${path}.${process.pid}`, JSON.stringify(content, null, 2), { mode: 0o600 });
    await rename(`${path}.${process.pid}`, path);
  } catch (error) {
    const reason = messageOf(error);
    throw new CtlError('failed_precondition', `cannot write the bootstrap: ${reason}`, { file: path }, error);
  }
  await checkReachable(path);
  return path;
}
