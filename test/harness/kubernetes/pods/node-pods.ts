/** The Pods of a node of the simulated kubelet: binds them, starts and ends them, and describes them. */
import type { Owner } from '../../owner.ts';
import { type ApiObject, type ApiRequest, errorOf } from '../api.ts';
import type { PodLogs } from '../pod-logs.ts';
import { RecentErrors } from '../recent-errors.ts';
import { describePod } from './describe.ts';
import { type PodOptions, RunningPod } from './pod.ts';
import { type PodStatus, unscheduled } from './status.ts';
import { messageOf, type Pod } from './types.ts';

/** Lines of an unready container in a description. */
const OUTPUT_LINES = 20;

export class NodePods {
  readonly #owner: Owner;
  readonly #name: string;
  readonly #options: PodOptions;
  readonly #logs: PodLogs;
  /** What was tried again. */
  readonly errors = new RecentErrors();
  /** Pods that run here, until they have ended. */
  readonly #running = new Map<string, RunningPod>();
  /** The statuses of Pods that no node runs. */
  readonly #unbound = new Map<string, PodStatus>();
  #started = 0;

  constructor(owner: Owner, name: string, options: PodOptions, logs: PodLogs) {
    this.#owner = owner;
    this.#name = name;
    this.#options = options;
    this.#logs = logs;
  }

  pod(key: string): RunningPod | undefined {
    return this.#running.get(key);
  }

  /** Ends all Pods at once. */
  async end(): Promise<void> {
    await Promise.all([...this.#running.values()].map((pod) => pod.stop(0)));
  }

  /** Makes true what the API server has of a Pod; rejects when that has to be tried again. */
  async reconcile(key: string, object: ApiObject | undefined): Promise<void> {
    const pod = object && ({ ...object, apiVersion: 'v1', kind: 'Pod' } as unknown as Pod);
    this.#unbound.delete(key);
    // Another Pod may have got the name.
    if (pod === undefined || (this.pod(key)?.uid ?? pod.metadata.uid) !== pod.metadata.uid) await this.#stop(key, 0);
    if (pod === undefined) return;
    const { deletionTimestamp, deletionGracePeriodSeconds } = pod.metadata;
    if (deletionTimestamp !== undefined) {
      await this.#stop(key, deletionGracePeriodSeconds as number | undefined);
      if (pod.spec.nodeName === this.#name) await this.#delete(pod);
    } else if (pod.spec.nodeName === undefined) {
      await this.#bind(key, pod);
    } else if (pod.spec.nodeName === this.#name && this.pod(key) === undefined) {
      this.#start(key, pod);
    }
  }

  describe(): string {
    const output = (container: string) => this.#logs.tail(container, OUTPUT_LINES);
    const pods = [
      ...[...this.#unbound].map(([key, status]) => describePod(key, status, output)),
      ...[...this.#running].map(([key, { status }]) => describePod(key, status, output)),
    ];
    return [`--- Pods of ${this.#name} ---`, ...pods, '--- what was tried again ---', ...this.errors.lines(), ''].join(
      '\n',
    );
  }

  #start(key: string, pod: Pod): void {
    const started = new RunningPod(this.#owner, pod, this.#options, {
      logs: this.#logs,
      label: `pod${++this.#started}`,
      failed: (message) => this.errors.note(key, message),
    });
    this.#running.set(key, started);
    started.start();
  }

  /** Without a time: that of the Pod. */
  async #stop(key: string, graceSeconds?: number): Promise<void> {
    await this.#running.get(key)?.stop(graceSeconds);
    this.#running.delete(key);
  }

  async #bind(key: string, pod: Pod): Promise<void> {
    const { name, namespace } = pod.metadata;
    try {
      await this.#send({
        method: 'POST',
        path: `/api/v1/namespaces/${namespace}/pods/${name}/binding`,
        body: { apiVersion: 'v1', kind: 'Binding', metadata: { name }, target: { kind: 'Node', name: this.#name } },
      });
    } catch (error) {
      const status = { phase: 'Pending', conditions: [unscheduled(messageOf(error))] };
      this.#unbound.set(key, status);
      // As the binding, this may fail: the error of the binding is the one to report.
      await this.#options.api
        .patch(pod, { status }, 'status')
        .catch((second: unknown) => this.errors.note(key, `status: ${messageOf(second)}`));
      throw error;
    }
  }

  /** A Pod of this name that is another one stays. */
  async #delete(pod: Pod): Promise<void> {
    const { name, namespace, uid } = pod.metadata;
    await this.#send({
      method: 'DELETE',
      path: `/api/v1/namespaces/${namespace}/pods/${name}`,
      body: { gracePeriodSeconds: 0, preconditions: { uid } },
    });
  }

  /** A Pod that was deleted or replaced meanwhile is not an error: its deletion is the next change. */
  async #send(request: ApiRequest): Promise<void> {
    const answer = await this.#options.api.request(request);
    if (answer.status >= 300 && answer.status !== 404) throw errorOf(answer);
  }
}
