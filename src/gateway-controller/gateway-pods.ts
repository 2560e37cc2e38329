/**
 * The Pods of Gateways, and which Gateways have a ready one. The agent in a Pod is ready once its Envoy is live and has
 * acknowledged its first clusters and listeners, so the API server has for every Gateway what a replica of the control
 * plane has only for its own connected proxies.
 */
import { createFailureLog, type Log } from '../core/log.ts';
import { isObject } from '../core/objects.ts';
import { Informer, type KubernetesClient, type KubernetesObject, v1Type } from '../kubernetes/index.ts';
import { GATEWAY_NAME_LABEL, managedName } from './infrastructure.ts';
import type { Complaint } from './status/deployment-status.ts';
import { recordsOf, type StatusFields } from './types.ts';

export interface GatewayPodsOptions {
  readonly client: KubernetesClient;
  readonly log: Log;
  /** All Pods were listed. */
  onList(): void;
  onChanged(namespace: string, gateway: string): void;
}

/** A Pod with the label of Gateways. */
interface LabelledPod {
  readonly namespace: string;
  readonly name: string;
  /** The Gateway whose proxy the Pod runs. */
  readonly gateway: string;
  /** Why the Pod is not ready; undefined when it is. */
  readonly problem: Complaint | undefined;
}

const PODS = v1Type('', 'Pod', 'pods', { wholeObjects: true });

/** The form of a condition's reason in the CRD; reasons of containers have the same form. */
const REASON = /^[A-Za-z]\w{0,99}$/;
const STARTING: Complaint = { reason: 'Pending', message: 'a Pod has not acknowledged its listeners yet' };

export class GatewayPods {
  readonly #pods: Informer<LabelledPod>;

  constructor({ client, log, onList, onChanged }: GatewayPodsOptions) {
    this.#pods = new Informer<LabelledPod>({
      connection: client.connection,
      type: PODS,
      labelSelector: GATEWAY_NAME_LABEL,
      convert: labelledPod,
      index: ({ namespace, gateway }) => `${namespace}/${gateway}`,
      onChange: (changes, isList) => {
        if (isList) return onList();
        for (const { namespace, before, after } of changes) {
          for (const gateway of new Set([before?.gateway, after?.gateway])) {
            if (gateway !== undefined) onChanged(namespace, gateway);
          }
        }
      },
      failures: createFailureLog(log, 'Pods of gateways cannot be read', 'Pods of gateways can be read again'),
    });
  }

  start(): void {
    this.#pods.start();
  }

  close(): Promise<void> {
    return this.#pods.close();
  }

  /** Whether Pods are listed. Until then, a Gateway without known Pods may have Pods. */
  get isSynced(): boolean {
    return this.#pods.isSynced;
  }

  /** Why no Pod of a Gateway is ready; undefined when at least one Pod is ready. */
  problemOf(namespace: string, gateway: string): Complaint | undefined {
    const problems = this.#pods.withIndex(`${namespace}/${gateway}`).map(({ problem }) => problem);
    if (problems.includes(undefined)) return undefined;
    const found = problems.filter((problem) => problem !== undefined);
    const worst = found.find(({ reason }) => reason !== STARTING.reason) ?? found[0];
    const what = `no Pod of Deployment ${managedName(gateway)} is ready`;
    if (worst === undefined) return { reason: STARTING.reason, message: `${what}: the Deployment has no Pods` };
    return { reason: worst.reason, message: `${what}: ${worst.message}` };
  }

  readyPods(namespace: string, gateway: string): readonly string[] {
    const pods = this.#pods.withIndex(`${namespace}/${gateway}`);
    return pods.filter(({ problem }) => problem === undefined).map(({ name }) => name);
  }
}

/**
 * A Pod of a Gateway runs as the ServiceAccount that was made for it. Undefined when somebody else labelled the Pod.
 */
function labelledPod(object: KubernetesObject): LabelledPod | undefined {
  const { namespace = '', name, labels } = object.metadata;
  const gateway = labels?.[GATEWAY_NAME_LABEL];
  const spec = isObject(object.spec) ? object.spec : {};
  if (gateway === undefined || spec.serviceAccountName !== managedName(gateway)) return undefined;
  return { namespace, name, gateway, problem: podProblem(object) };
}

/** The message names no Pod, count or time, because the status is written again whenever the message changes. */
function podProblem({ metadata, status }: KubernetesObject): Complaint | undefined {
  if (metadata.deletionTimestamp !== undefined) return { reason: STARTING.reason, message: 'a Pod is terminating' };
  if (!isObject(status)) return STARTING;
  const conditions = recordsOf(status.conditions);
  if (conditions.some(({ type, status: is }) => type === 'Ready' && is === 'True')) return undefined;
  const scheduled = conditions.find(({ type, status: is }) => type === 'PodScheduled' && is === 'False');
  if (scheduled !== undefined) return { reason: 'NoResources', message: 'a Pod cannot be scheduled' };
  const containers = [...recordsOf(status.initContainerStatuses), ...recordsOf(status.containerStatuses)];
  return containers.map(containerProblem).find((problem) => problem !== undefined) ?? STARTING;
}

function containerProblem({ name, ready, state, lastState, restartCount }: StatusFields): Complaint | undefined {
  if (ready === true || !isObject(state)) return undefined;
  // Between two runs the container is starting for a moment, which is the same problem.
  if (typeof restartCount === 'number' && restartCount > 0) {
    const last = [lastState, state].map((each) => (isObject(each) ? each.terminated : undefined)).find(isObject);
    const how = last === undefined ? '' : `; its last exit code is ${last.exitCode}`;
    return { reason: 'CrashLoopBackOff', message: `container ${name} keeps restarting${how}` };
  }
  const waiting = isObject(state.waiting) ? state.waiting.reason : undefined;
  if (typeof waiting !== 'string' || !REASON.test(waiting) || waiting === 'ContainerCreating') return undefined;
  return { reason: waiting, message: `container ${name} is waiting: ${waiting}` };
}
