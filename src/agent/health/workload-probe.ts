/**
 * The health of the workload, for the control plane: `readinessProbe` of the proxy configuration, in the form of a
 * Pod's, with `exec`, `httpGet`, `tcpSocket` and `grpc`. A workload is healthy after `successThreshold` successes and
 * unhealthy after `failureThreshold` failures, each in a row; before either nothing is reported. Probes begin when the
 * proxy is ready. If it is not ready later, the workload is unhealthy as well: callers could not reach it.
 *
 * Source: https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/
 */
import { CtlError, messageOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { isObject } from '../../core/objects.ts';
import type { WorkloadHealth } from '../xds-proxy/index.ts';
import { type AppProbe, parseProbe, probeTimeoutMs, problemOf } from './probes.ts';

export interface ExecProbe {
  readonly kind: 'exec';
  readonly command: readonly [program: string, ...args: string[]];
  readonly timeoutMs: number;
}

export interface WorkloadProbe {
  readonly action: AppProbe | ExecProbe;
  readonly initialDelayMs: number;
  readonly periodMs: number;
  readonly successThreshold: number;
  readonly failureThreshold: number;
}

/** The defaults of Kubernetes. */
const DEFAULTS = { periodSeconds: 10, successThreshold: 1, failureThreshold: 3 };
/** A day: timers of Node.js of more than 2^31 ms fire at once. */
const MAX_SECONDS = 86_400;
/** How often the readiness of a starting proxy is checked. */
const STARTING_MS = 500;
const WHERE = 'PROXY_CONFIG or the mesh configuration: readinessProbe';

/**
 * Undefined without a probe. Throws a CtlError that says what was expected.
 *
 * @param host the application's address, unless the probe names another one
 */
export function parseWorkloadProbe(
  spec: Readonly<Record<string, unknown>> | undefined,
  host: string,
): WorkloadProbe | undefined {
  if (spec === undefined) return undefined;
  try {
    const number = (field: string, fallback: number, max: number): number => {
      const value = spec[field] ?? 0;
      if (typeof value === 'number' && Number.isInteger(value) && value >= 0) return Math.min(value || fallback, max);
      throw new CtlError('invalid_argument', `${field} must be a whole number of at least 0`);
    };
    return {
      action: parseAction(spec, host),
      initialDelayMs: number('initialDelaySeconds', 0, MAX_SECONDS) * 1000,
      periodMs: number('periodSeconds', DEFAULTS.periodSeconds, MAX_SECONDS) * 1000,
      successThreshold: number('successThreshold', DEFAULTS.successThreshold, Number.MAX_SAFE_INTEGER),
      failureThreshold: number('failureThreshold', DEFAULTS.failureThreshold, Number.MAX_SAFE_INTEGER),
    };
  } catch (error) {
    throw new CtlError('invalid_argument', `${WHERE}: ${messageOf(error)}`);
  }
}

function parseAction(spec: Readonly<Record<string, unknown>>, host: string): WorkloadProbe['action'] {
  if (!isObject(spec.exec)) return parseProbe(spec, host);
  const { command } = spec.exec;
  const words = Array.isArray(command) ? command.filter((word) => typeof word === 'string') : [];
  const [program = '', ...args] = words;
  if (program === '' || !Array.isArray(command) || words.length !== command.length) {
    throw new CtlError('invalid_argument', 'exec.command must be a list of strings that begins with the program');
  }
  return { kind: 'exec', command: [program, ...args], timeoutMs: probeTimeoutMs(spec) };
}

export interface WorkloadHealthDeps {
  readonly probe: WorkloadProbe;
  /** Undefined when the proxy is ready; otherwise the reason. */
  readonly proxy: () => Promise<string | undefined>;
  readonly report: (health: WorkloadHealth) => void;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<unknown>;
  readonly log: Log;
}

/** Probes until `signal` aborts; reports when the health is known first, and when it or its reason changes. */
export async function watchWorkloadHealth(deps: WorkloadHealthDeps, signal: AbortSignal): Promise<void> {
  const { probe, sleep, log, report } = deps;
  await sleep(probe.initialDelayMs, signal);
  let reported: WorkloadHealth | undefined;
  let [successes, failures] = [0, 0];
  // Until it has been ready once, there is nothing to report: the control plane does not use the workload before.
  while (!signal.aborted && (await deps.proxy()) !== undefined)
    await sleep(Math.min(probe.periodMs, STARTING_MS), signal);
  while (!signal.aborted) {
    const problem = await currentProblem(deps, signal);
    if (signal.aborted) return;
    if (problem === '') [successes, failures] = [successes + 1, 0];
    else [successes, failures] = [0, failures + 1];
    const isKnown = problem === '' ? successes >= probe.successThreshold : failures >= probe.failureThreshold;
    if (isKnown && (reported?.healthy !== (problem === '') || reported.message !== problem)) {
      if (reported?.healthy !== (problem === '')) {
        if (problem === '') log.info('the workload is healthy');
        else log.warn(`the workload is unhealthy: ${problem}`);
      }
      reported = { healthy: problem === '', message: problem };
      report(reported);
    }
    await sleep(probe.periodMs, signal);
  }
}

async function currentProblem({ probe: { action }, proxy }: WorkloadHealthDeps, signal: AbortSignal): Promise<string> {
  const notReady = await proxy();
  if (notReady !== undefined) return `the proxy is not ready: ${notReady}`;
  if (action.kind !== 'exec') return await problemOf(action);
  const { runCommand } = await import('./run-command.ts');
  return await runCommand(action.command, action.timeoutMs, signal);
}
