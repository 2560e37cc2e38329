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

const isSidecar = ({ restartPolicy }: Container) => restartPolicy === 'Always';

function stateOf(container: PodContainer | undefined, message: string | undefined): object {
  // Not the phase `Failed`, which is final: a ReplicaSet would create one Pod after another.
  const waiting = (text: string | undefined) => ({ waiting: { reason: 'CannotRun', message: text } });
  if (container === undefined || message !== undefined) return waiting(message);
  const { state } = container;
  if (state.kind === 'waiting') return waiting(state.message);
  if (state.kind === 'running') return { running: { startedAt: state.since.toISOString() } };
  return { terminated: { exitCode: state.code, reason: state.code === 0 ? 'Completed' : 'Error' } };
}

export function podStatus({ spec }: Pod, { phase, podIP, message, initialized, containers }: PodState): object {
  const { initContainers = [] } = spec;
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
  const containerStatuses = spec.containers.map(statusOf);
  const initContainerStatuses = initContainers.map(statusOf);
  const sidecars = initContainers.filter(isSidecar).map(({ name }) => containers.get(name));
  const all = containerStatuses.every(({ ready }) => ready) && sidecars.every((sidecar) => sidecar?.ready === true);
  const condition = (type: string, met: boolean) => ({ type, status: met ? 'True' : 'False' });
  return {
    phase,
    ...(podIP === undefined ? {} : { podIP, podIPs: [{ ip: podIP }] }),
    conditions: [
      condition('PodScheduled', true),
      condition('Initialized', initialized),
      condition('ContainersReady', all),
      condition('Ready', all),
    ],
    ...(initContainerStatuses.length === 0 ? {} : { initContainerStatuses }),
    containerStatuses,
  };
}
