/**
 * The Pods of Gateways, and which Gateways have a ready one. The agent in a Pod is ready once its Envoy is live and has
 * acknowledged its first clusters and listeners, so the API server knows of every Gateway what a replica of the control
 * plane knows only of the proxies that are connected to it.
 */
import type { Clock } from '../core/clock.ts';
import { createFailureLog, type Log } from '../core/log.ts';
import { type KubernetesClient, type KubernetesObject, Reflector, type ResourceType } from '../kubernetes/index.ts';
import type { Complaint } from './deployment-status.ts';
import { reportFailure } from './failures.ts';
import { GATEWAY_NAME_LABEL, managedName } from './infrastructure.ts';
import { isRecord, recordsOf, type StatusFields } from './types.ts';

export interface GatewayPodsOptions {
  readonly client: KubernetesClient;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  readonly log: Log;
  /** All Pods were listed. */
  onList(): void;
  /** The Pods of this Gateway have changed. */
  onChanged(namespace: string, gateway: string): void;
}

/** A Pod with the label of Gateways. */
interface LabelledPod {
  readonly namespace: string;
  readonly name: string;
  /** The Gateway that it runs; undefined: somebody else labelled it. */
  readonly gateway: string | undefined;
  /** Why it is not ready; undefined: it is. */
  readonly problem: Complaint | undefined;
}

const PODS: ResourceType = {
  group: '',
  version: 'v1',
  plural: 'pods',
  kind: 'Pod',
  namespaced: true,
  wholeObjects: true,
};

/** Of a condition, as its definition has it; reasons of containers are such words. */
const REASON = /^[A-Za-z]\w{0,99}$/;
const STARTING: Complaint = { reason: 'Pending', message: 'it has not acknowledged its listeners yet' };

export class GatewayPods {
  readonly #reflector: Reflector<LabelledPod>;
  /** By `namespace/name`. */
  readonly #pods = new Map<string, LabelledPod>();
  /** Names of Pods by `namespace/gateway`. */
  readonly #ofGateways = new Map<string, Set<string>>();
  #synced = false;

  constructor({ client, clock, random, log, onList, onChanged }: GatewayPodsOptions) {
    const failures = createFailureLog(log, 'Pods of gateways cannot be read', 'Pods of gateways are read again');
    this.#reflector = new Reflector<LabelledPod>(
      { connection: client.connection, type: PODS, labelSelector: GATEWAY_NAME_LABEL, clock, random },
      {
        convert: labelledPod,
        onList: (items) => {
          this.#pods.clear();
          this.#ofGateways.clear();
          for (const pod of items) this.#set(pod);
          this.#synced = true;
          onList();
        },
        onChanges: (changes) => {
          for (const change of changes) {
            const { namespace = '', name } = change.type === 'set' ? change.item : change.object.metadata;
            const before = this.#remove(`${namespace}/${name}`);
            if (before !== undefined) onChanged(namespace, before);
            if (change.type !== 'set') continue;
            this.#set(change.item);
            if (change.item.gateway !== undefined) onChanged(namespace, change.item.gateway);
          }
        },
        onFailure: (error) => reportFailure(failures, error),
        onRecovered: () => failures.succeeded(),
      },
    );
  }

  start(): void {
    this.#reflector.start();
  }

  close(): Promise<void> {
    return this.#reflector.close();
  }

  /** Whether Pods are listed: a Gateway without any then has none. */
  get isSynced(): boolean {
    return this.#synced;
  }

  /** Why no Pod of a Gateway is ready; undefined where one is. */
  problemOf(namespace: string, gateway: string): Complaint | undefined {
    const names = this.#ofGateways.get(`${namespace}/${gateway}`) ?? [];
    const problems = [...names].map((name) => this.#pods.get(`${namespace}/${name}`)?.problem);
    if (problems.includes(undefined)) return undefined;
    const found = problems.filter((problem) => problem !== undefined);
    const worst = found.find(({ reason }) => reason !== STARTING.reason) ?? found[0];
    const what = `no Pod of Deployment ${managedName(gateway)} is ready`;
    if (worst === undefined) return { reason: STARTING.reason, message: `${what}: there is none` };
    return { reason: worst.reason, message: `${what}: ${worst.message}` };
  }

  /** Names of the Pods of a Gateway that are ready. */
  readyPods(namespace: string, gateway: string): readonly string[] {
    const names = [...(this.#ofGateways.get(`${namespace}/${gateway}`) ?? [])];
    return names.filter((name) => this.#pods.get(`${namespace}/${name}`)?.problem === undefined);
  }

  #set(pod: LabelledPod): void {
    const { namespace, name, gateway } = pod;
    if (gateway === undefined) return;
    this.#pods.set(`${namespace}/${name}`, pod);
    const key = `${namespace}/${gateway}`;
    this.#ofGateways.set(key, (this.#ofGateways.get(key) ?? new Set()).add(name));
  }

  /** @returns the Gateway that the Pod ran */
  #remove(key: string): string | undefined {
    const { namespace, name, gateway } = this.#pods.get(key) ?? {};
    if (name === undefined) return undefined;
    this.#pods.delete(key);
    const names = this.#ofGateways.get(`${namespace}/${gateway}`);
    names?.delete(name);
    if (names?.size === 0) this.#ofGateways.delete(`${namespace}/${gateway}`);
    return gateway;
  }
}

/** A Pod of a Gateway runs as the ServiceAccount that was made for it. */
function labelledPod(object: KubernetesObject): LabelledPod {
  const { namespace = '', name, labels } = object.metadata;
  const gateway = labels?.[GATEWAY_NAME_LABEL];
  const spec = isRecord(object.spec) ? object.spec : {};
  const isOwn = gateway !== undefined && spec.serviceAccountName === managedName(gateway);
  return { namespace, name, gateway: isOwn ? gateway : undefined, problem: podProblem(object) };
}

/** The text names no Pod, count or time: the status is written again whenever it changes. */
function podProblem({ metadata, status }: KubernetesObject): Complaint | undefined {
  if (metadata.deletionTimestamp !== undefined) return { reason: STARTING.reason, message: 'it is ending' };
  if (!isRecord(status)) return STARTING;
  const conditions = recordsOf(status.conditions);
  if (conditions.some(({ type, status: is }) => type === 'Ready' && is === 'True')) return undefined;
  const scheduled = conditions.find(({ type, status: is }) => type === 'PodScheduled' && is === 'False');
  if (scheduled !== undefined) return { reason: 'NoResources', message: 'it cannot be scheduled' };
  const containers = [...recordsOf(status.initContainerStatuses), ...recordsOf(status.containerStatuses)];
  return containers.map(containerProblem).find((problem) => problem !== undefined) ?? STARTING;
}

function containerProblem({ name, ready, state, lastState, restartCount }: StatusFields): Complaint | undefined {
  if (ready === true || !isRecord(state)) return undefined;
  // Between two runs it is starting for a moment: that is the same problem.
  if (typeof restartCount === 'number' && restartCount > 0) {
    const last = [lastState, state].map((each) => (isRecord(each) ? each.terminated : undefined)).find(isRecord);
    const how = last === undefined ? '' : `; it ended with exit code ${last.exitCode}`;
    return { reason: 'CrashLoopBackOff', message: `container ${name} ends and is started again${how}` };
  }
  const waiting = isRecord(state.waiting) ? state.waiting.reason : undefined;
  if (typeof waiting !== 'string' || !REASON.test(waiting) || waiting === 'ContainerCreating') return undefined;
  return { reason: waiting, message: `container ${name} is waiting: ${waiting}` };
}
