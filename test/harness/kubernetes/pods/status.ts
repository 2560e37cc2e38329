/** The status of a Pod of the simulated kubelet. */
import type { PodContainer } from './container.ts';
import type { Container, Pod } from './types.ts';

export type Phase = 'Pending' | 'Running' | 'Succeeded' | 'Failed';

export interface PodState {
  readonly phase: Phase;
  /** Undefined before it has a network namespace. */
  readonly podIP: string | undefined;
  /** Why no container can start. */
  readonly message: string | undefined;
  /** All init containers have ended or, as sidecars, started. */
  readonly initialized: boolean;
  /** By name; those that do not run yet are missing. */
  readonly containers: ReadonlyMap<string, PodContainer>;
}

export interface Condition {
  readonly type: string;
  readonly status: 'True' | 'False';
  readonly reason?: string;
  readonly message?: string;
}

export interface ContainerStatus {
  readonly name: string;
  readonly ready: boolean;
  readonly restartCount: number;
  readonly state: object;
}

export interface PodStatus {
  readonly phase?: string;
  readonly podIP?: string;
  readonly conditions?: readonly Condition[];
  readonly initContainerStatuses?: readonly ContainerStatus[];
  readonly containerStatuses?: readonly ContainerStatus[];
}

const isSidecar = ({ restartPolicy }: Container) => restartPolicy === 'Always';

function stateOf(container: PodContainer | undefined, message: string | undefined): object {
  // Not the phase `Failed`, which is final: a ReplicaSet would create one Pod after another.
  if (container === undefined || message !== undefined) return { waiting: { reason: 'ContainerCreating', message } };
  const { state } = container;
  if (state.kind === 'waiting') {
    const reason = state.message === undefined ? 'ContainerCreating' : 'CreateContainerError';
    return { waiting: { reason, message: state.message } };
  }
  if (state.kind === 'running') return { running: { startedAt: state.since.toISOString() } };
  const { code, output } = state;
  return { terminated: { exitCode: code, reason: code === 0 ? 'Completed' : 'Error', message: output } };
}

/** Why containers of these names do not do what is expected of them. */
function reasons(names: readonly string[], { message, containers }: PodState): string {
  const each = names.flatMap((name) => {
    const { unready, state } = containers.get(name) ?? {};
    return unready !== undefined && state?.kind === 'running' ? [`${name}: ${unready}`] : [];
  });
  return [`[${names.join(' ')}]`, ...(message === undefined ? [] : [message]), ...each].join(', ');
}

function conditionsOf({ spec }: Pod, state: PodState): Condition[] {
  const { initContainers = [], containers } = spec;
  const { phase, initialized } = state;
  const lasting = [...initContainers.filter(isSidecar), ...containers].map(({ name }) => name);
  const unready = lasting.filter((name) => state.containers.get(name)?.ready !== true);
  const readiness = (type: string): Condition => {
    if (unready.length === 0) return { type, status: 'True' };
    if (phase === 'Succeeded') return { type, status: 'False', reason: 'PodCompleted' };
    const message = `containers with unready status: ${reasons(unready, state)}`;
    return { type, status: 'False', reason: 'ContainersNotReady', message };
  };
  return [
    { type: 'PodScheduled', status: 'True' },
    initialized ? { type: 'Initialized', status: 'True' } : notInitialized(initContainers, state),
    readiness('ContainersReady'),
    readiness('Ready'),
  ];
}

function notInitialized(initContainers: readonly Container[], state: PodState): Condition {
  const incomplete = initContainers.filter((container) => {
    const { state: its, started } = state.containers.get(container.name) ?? {};
    return isSidecar(container) ? started !== true : its?.kind !== 'ended' || its.code !== 0;
  });
  const names = incomplete.map(({ name }) => name);
  const message = `containers with incomplete status: ${reasons(names, state)}`;
  return { type: 'Initialized', status: 'False', reason: 'ContainersNotInitialized', message };
}

export function podStatus(pod: Pod, state: PodState): PodStatus {
  const { phase, podIP, message, containers } = state;
  const { initContainers = [] } = pod.spec;
  const statusOf = (declared: Container) => {
    const container = containers.get(declared.name);
    const completed = !isSidecar(declared) && container?.state.kind === 'ended' && container.state.code === 0;
    return {
      name: declared.name,
      image: declared.image,
      imageID: declared.image,
      ready: container?.ready ?? false,
      started: container?.started ?? false,
      restartCount: container?.restarts ?? 0,
      state: stateOf(container, message),
      // An init container is ready when it has done its work.
      ...(initContainers.includes(declared) && completed ? { ready: true } : {}),
    };
  };
  const initContainerStatuses = initContainers.map(statusOf);
  return {
    phase,
    ...(podIP === undefined ? {} : { podIP, podIPs: [{ ip: podIP }] }),
    conditions: conditionsOf(pod, state),
    ...(initContainerStatuses.length === 0 ? {} : { initContainerStatuses }),
    containerStatuses: pod.spec.containers.map(statusOf),
  };
}

/** The condition of a Pod that could not be bound to a node, as the scheduler writes it. */
export const unscheduled = (message: string): Condition => ({
  type: 'PodScheduled',
  status: 'False',
  reason: 'SchedulerError',
  message,
});
