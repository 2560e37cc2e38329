/**
 * Probes of the application are redirected to the agent, which performs them: the kubelet sends requests in plain text
 * without an identity, which a proxy that requires mutual TLS refuses. The variable MESH_ORCH_APP_PROBERS of the
 * sidecar has the original ones (src/agent/health/app-probes.ts reads it).
 *
 *   readinessProbe: { httpGet: { path: /ready, port: http } }
 *   readinessProbe: { httpGet: { path: /app-health/web/readyz, port: 15020 } }
 *
 * `exec` stays: it runs in the container. In a Pod that was injected before, probes that others changed since are
 * rewritten as well.
 */
import { CtlError } from '../../../core/errors.ts';
import { isObject } from '../../../core/objects.ts';
import { ANNOTATIONS } from '../annotations/annotations.ts';
import { type PodRecord, recordOf, recordsOf, textOf } from '../pod-shape.ts';
import { PROXY_PORTS } from '../redirection.ts';
import { PROXY_CONTAINER } from '../templates/parts.ts';
import {
  isWithoutEnvoy,
  sidecarOf,
  unescaped,
  variableOf,
  withContainers,
  withProxyVariable,
} from './sidecar-container.ts';
import type { InjectionStep } from './step.ts';

const VARIABLE = 'MESH_ORCH_APP_PROBERS';

const PROBES = { readinessProbe: 'readyz', livenessProbe: 'livez', startupProbe: 'startupz' } as const;

/** Linux starts no process with a variable of more than 128 KiB, its name included (MAX_ARG_STRLEN). */
const MAX_VARIABLE = 127 * 1024;

/** The default of Kubernetes and of the agent. */
const DEFAULT_TIMEOUT_SECONDS = 1;

interface Rewriting {
  readonly port: number;
  /** The probes of an earlier injection, by path. */
  readonly previous: PodRecord;
  /** By path. */
  readonly probers: Map<string, PodRecord>;
  readonly warnings: string[];
}

/** A handler in a container, for messages and paths. */
interface Subject {
  readonly container: PodRecord;
  /** `spec.containers[web].readinessProbe` */
  readonly field: string;
  /** `/app-health/web/readyz` */
  readonly path: string;
}

export const rewriteProbes: InjectionStep = (pod, { data, isRepeated, warnings }) => {
  const sidecar = sidecarOf(pod);
  const { proxy } = data;
  if (sidecar === undefined || isWithoutEnvoy(sidecar)) return pod;
  if (!proxy.rewriteProbes || proxy.interceptionMode === 'NONE') return pod;
  const spec = recordOf(pod.spec);
  const rewriting: Rewriting = {
    port: proxy.statusPort,
    previous: isRepeated ? previousProbers(sidecar.container) : {},
    probers: new Map(),
    warnings,
  };
  const start = recordsOf(spec.initContainers).findIndex(({ name }) => name === PROXY_CONTAINER);
  const initRewritten = withContainers(pod, 'initContainers', (container, index) => {
    if (container.name === PROXY_CONTAINER || container.restartPolicy !== 'Always') return container;
    if (start >= 0 && index > start) return rewritten(container, 'initContainers', rewriting);
    warnIfProbed(container, warnings);
    return container;
  });
  const allRewritten = withContainers(initRewritten, 'containers', (container) =>
    container.name === PROXY_CONTAINER ? container : rewritten(container, 'containers', rewriting),
  );
  const { probers } = rewriting;
  return withProxyVariable(allRewritten, VARIABLE, probers.size === 0 ? undefined : variableFor(probers));
};

/** @throws CtlError where the container could not start with the variable */
function variableFor(probers: ReadonlyMap<string, PodRecord>): string {
  const text = JSON.stringify(Object.fromEntries(probers));
  const size = Buffer.byteLength(text);
  if (size <= MAX_VARIABLE) return text;
  const { name } = ANNOTATIONS.rewriteProbes;
  const message = `the probes take ${size} bytes of the sidecar's environment, expected at most ${MAX_VARIABLE}`;
  throw new CtlError('invalid_argument', `${message}; ${name}: "false" leaves them as they are`, {
    field: 'spec.containers',
  });
}

function previousProbers(sidecar: PodRecord): PodRecord {
  try {
    return recordOf(JSON.parse(unescaped(variableOf(sidecar, VARIABLE) ?? '{}')));
  } catch {
    return {};
  }
}

/** A container that starts before the proxy cannot wait for it. */
function warnIfProbed(container: PodRecord, warnings: string[]): void {
  const probed = Object.keys(PROBES).find(
    (probe) => isObject(container[probe]) && !isObject(recordOf(container[probe]).exec),
  );
  if (probed === undefined) return;
  const why = 'not rewritten, because the container starts before the proxy; it fails where mutual TLS is required';
  warnings.push(`spec.initContainers[${textOf(container.name)}].${probed}: ${why}`);
}

function rewritten(container: PodRecord, list: string, rewriting: Rewriting): PodRecord {
  const name = textOf(container.name);
  const changed: [string, PodRecord][] = [];
  for (const [field, ending] of Object.entries(PROBES)) {
    const probe = container[field];
    if (!isObject(probe)) continue;
    const subject = { container, field: `spec.${list}[${name}].${field}`, path: `/app-health/${name}/${ending}` };
    const after = rewrittenProbe(probe, subject, rewriting);
    if (after !== probe) changed.push([field, after]);
  }
  warnOfHooks(container, list, rewriting.warnings);
  return changed.length === 0 ? container : { ...container, ...Object.fromEntries(changed) };
}

/**
 * Lifecycle handlers are actions. The agent serves any caller, so it must not run them: any workload could terminate
 * another one.
 */
function warnOfHooks({ name, lifecycle }: PodRecord, list: string, warnings: string[]): void {
  for (const hook of ['postStart', 'preStop']) {
    if (!isObject(recordOf(recordOf(lifecycle)[hook]).httpGet)) continue;
    const field = `spec.${list}[${textOf(name)}].lifecycle.${hook}.httpGet`;
    warnings.push(`${field}: fails where mutual TLS is required, because the kubelet has no certificate; use exec`);
  }
}

function rewrittenProbe(probe: PodRecord, subject: Subject, rewriting: Rewriting): PodRecord {
  const prober = proberOf(probe, subject, rewriting);
  if (prober === undefined) return probe;
  const { timeoutSeconds } = probe;
  const isDefault = typeof timeoutSeconds !== 'number' || timeoutSeconds === DEFAULT_TIMEOUT_SECONDS;
  rewriting.probers.set(subject.path, isDefault ? prober : { ...prober, timeoutSeconds });
  return withHandler(probe, subject.path, rewriting.port);
}

function withHandler(handler: PodRecord, path: string, port: number): PodRecord {
  const { httpGet: _httpGet, tcpSocket: _tcpSocket, grpc: _grpc, ...settings } = handler;
  return { httpGet: { path, port }, ...settings };
}

/** What the agent does in place of the kubelet; undefined where the handler stays as it is. */
function proberOf(
  handler: PodRecord,
  { container, field, path }: Subject,
  rewriting: Rewriting,
): PodRecord | undefined {
  const { httpGet, tcpSocket, grpc } = handler;
  if (isObject(httpGet) && httpGet.path === path && httpGet.port === rewriting.port) {
    const previous = rewriting.previous[path];
    if (isObject(previous)) rewriting.probers.set(path, previous);
    else rewriting.warnings.push(`${field}.httpGet: the agent does not have the original probe, and returns HTTP 404`);
    return undefined;
  }
  const [kind, target] = isObject(httpGet)
    ? ['httpGet', httpGet]
    : isObject(tcpSocket)
      ? ['tcpSocket', tcpSocket]
      : ['grpc', recordOf(grpc)];
  if (target === undefined || (kind === 'grpc' && !isObject(grpc))) return undefined;
  const port = portOf(target.port, container);
  if (port === undefined) {
    rewriting.warnings.push(`${field}.${kind}.port: no port of the container has this name`);
    return undefined;
  }
  // Served by the agent and Envoy themselves, and not redirected.
  if (port === rewriting.port || PROXY_PORTS.includes(String(port))) return undefined;
  return { [kind]: withoutDefaults({ ...target, port }) };
}

/** The same result before and after the API server has set defaults and removed fields that are null. */
function withoutDefaults({ scheme: givenScheme, service: givenService, ...target }: PodRecord): PodRecord {
  const [scheme, service] = [givenScheme ?? undefined, givenService ?? undefined];
  return {
    ...Object.fromEntries(Object.entries(target).filter(([, value]) => value !== null)),
    ...(scheme === undefined || scheme === 'HTTP' ? {} : { scheme }),
    ...(service === undefined || service === '' ? {} : { service }),
  };
}

/** A number, or the name of a port of the container; as the kubelet resolves it. */
function portOf(port: unknown, { ports }: PodRecord): number | undefined {
  if (typeof port === 'number') return port;
  if (typeof port !== 'string') return undefined;
  const named = recordsOf(ports).find(({ name }) => name === port)?.containerPort;
  if (typeof named === 'number') return named;
  return /^\d{1,5}$/.test(port) ? Number(port) : undefined;
}
