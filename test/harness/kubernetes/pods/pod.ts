/**
 * A running Pod: init containers one after the other, sidecars among them before those that follow, then the ordinary
 * containers. It ends when they have ended for good, or when it is deleted: sidecars last, in reverse order.
 */
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { tempDir } from '../../files.ts';
import type { Namespace, Network } from '../../netns.ts';
import { createScope, type Owner, type Scope } from '../../owner.ts';
import { ApiError, type KubernetesApi } from '../api.ts';
import type { PodLogs } from '../pod-logs.ts';
import { keyOf } from '../watch.ts';
import { PodContainer } from './container.ts';
import { type Phase, podStatus } from './status.ts';
import { type Container, type Image, messageOf, type Pod } from './types.ts';
import { keyReader, writeVolumes } from './volumes.ts';

export interface PodOptions {
  /** As cluster admin. */
  readonly api: KubernetesApi;
  readonly network: Network;
  readonly images: Readonly<Record<string, Image>>;
  /** More lines of hosts(5), read when a Pod starts. */
  readonly hosts?: () => string;
}

/** Between attempts that need the API server. */
const RETRY_MS = 500;
/** Kubernetes' own default, seconds. */
const GRACE_SECONDS = 30;

export class RunningPod {
  readonly #pod: Pod;
  readonly #label: string;
  readonly #options: PodOptions;
  readonly #logs: PodLogs;
  readonly #scope: Scope = createScope();
  /** What the scope closes, with the logs of its processes where the owner has failed. */
  readonly #owner: Owner;
  readonly #containers = new Map<string, PodContainer>();
  readonly #ended = new AbortController();
  #phase: Phase = 'Pending';
  #address: string | undefined;
  #initialized = false;
  /** Why no container can start yet. */
  #message: string | undefined;
  #reported = '';
  #reporting: Promise<void> = Promise.resolve();
  #finished: Promise<unknown> = Promise.resolve();

  /** The label is of its network namespace. */
  constructor(owner: Owner, pod: Pod, label: string, options: PodOptions, logs: PodLogs) {
    const scope = this.#scope;
    this.#owner = {
      after: scope.after,
      get error() {
        return owner.error;
      },
    };
    this.#pod = pod;
    this.#label = label;
    this.#options = options;
    this.#logs = logs;
  }

  container(name: string): PodContainer | undefined {
    return this.#containers.get(name);
  }

  /** Returns at once; a failure becomes the Pod's status. */
  start(): void {
    this.#finished = this.#run().catch((error: unknown) => {
      this.#message = messageOf(error);
      this.#report();
    });
  }

  /** Ends its processes; settles when they have ended and the namespace is removed. */
  async stop(graceSeconds = this.#pod.spec.terminationGracePeriodSeconds ?? GRACE_SECONDS): Promise<void> {
    this.#ended.abort();
    await this.#endContainers(graceSeconds * 1_000);
    await this.#finished;
    await this.#scope.close();
    this.#logs.forget(keyOf(this.#pod));
  }

  async #endContainers(graceMs: number): Promise<void> {
    const deadline = performance.now() + graceMs;
    const { initContainers = [], containers } = this.#pod.spec;
    const end = ({ name }: Container) => this.#containers.get(name)?.end(Math.max(0, deadline - performance.now()));
    await Promise.all(containers.map(end));
    for (const container of initContainers.toReversed()) await end(container);
  }

  async #run(): Promise<void> {
    const { spec } = this.#pod;
    const namespace = await this.#options.network.addNamespace(this.#label, this.#owner);
    for (const { name, value } of spec.securityContext?.sysctls ?? [])
      await namespace.run('sysctl', '-q', '-w', `${name}=${value}`);
    this.#address = namespace.address;
    const make = await this.#prepare(namespace);
    if (make === undefined) return;
    const { restartPolicy = 'Always' } = spec;
    for (const container of spec.initContainers ?? []) {
      if (this.#ended.signal.aborted) return;
      const made = make(container);
      if (container.restartPolicy === 'Always') {
        void made.run(() => true);
        await made.hasStarted;
      } else if ((await made.run((code) => code !== 0 && restartPolicy !== 'Never')) !== 0) {
        return this.#complete('Failed');
      }
    }
    this.#initialized = true;
    this.#phase = 'Running';
    const again = (code: number) => restartPolicy === 'Always' || (restartPolicy === 'OnFailure' && code !== 0);
    const runs: Promise<number>[] = [];
    for (const container of spec.containers) {
      if (this.#ended.signal.aborted) return;
      const made = make(container);
      runs.push(made.run(again));
      await made.launched;
    }
    const codes = await Promise.all(runs);
    await this.#complete(codes.every((code) => code === 0) ? 'Succeeded' : 'Failed');
  }

  /** All ordinary containers have ended: so do the sidecars. */
  async #complete(phase: Phase): Promise<void> {
    if (this.#ended.signal.aborted) return;
    await this.#endContainers((this.#pod.spec.terminationGracePeriodSeconds ?? GRACE_SECONDS) * 1_000);
    this.#phase = phase;
    this.#report();
  }

  /** Writes what containers mount; returns what makes them, or undefined when the Pod has ended. */
  async #prepare(namespace: Namespace): Promise<((container: Container) => PodContainer) | undefined> {
    const { api, images } = this.#options;
    const pod = this.#pod;
    const folder = await tempDir(this.#owner);
    await chmod(folder, 0o755);
    const volumes = join(folder, 'volumes');
    if (!(await this.#writeVolumes(volumes, namespace.address))) return undefined;
    const hosts = join(folder, 'hosts');
    await writeFile(hosts, this.#hosts(namespace.address));
    return (container) => {
      const log = this.#logs.writer(`${keyOf(pod)}/${container.name}`);
      const made = new PodContainer({
        ...{ pod, container, images, namespace, volumes, hosts, onOutput: log },
        read: keyReader({ api, pod }),
        changed: () => this.#report(),
      });
      this.#containers.set(container.name, made);
      return made;
    };
  }

  #hosts(address: string): string {
    const { spec, metadata } = this.#pod;
    const aliases = (spec.hostAliases ?? []).map(({ ip, hostnames = [] }) => [ip, ...hostnames].join(' '));
    const lines = ['127.0.0.1 localhost', `${address} ${metadata.name}`, ...aliases, this.#options.hosts?.() ?? ''];
    return `${lines.join('\n')}\n`;
  }

  /** Waits for Secrets and ConfigMaps that do not exist yet, as a kubelet does. False when the Pod has ended before. */
  async #writeVolumes(folder: string, podIP: string): Promise<boolean> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      try {
        await writeVolumes(folder, { api: this.#options.api, pod: this.#pod, podIP });
        this.#message = undefined;
        return true;
      } catch (error) {
        this.#message = messageOf(error);
        this.#report();
      }
      await delay(RETRY_MS, undefined, { signal }).catch(() => undefined);
    }
    return false;
  }

  /** Writes the status, after writes that have not ended yet. */
  #report(): void {
    this.#reporting = this.#reporting.then(() => this.#write());
  }

  async #write(): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      const status = podStatus(this.#pod, {
        phase: this.#phase,
        podIP: this.#address,
        message: this.#message,
        initialized: this.#initialized,
        containers: this.#containers,
      });
      const text = JSON.stringify(status);
      if (text === this.#reported) return;
      try {
        await this.#options.api.patch(this.#pod, { status }, 'status');
        this.#reported = text;
        return;
      } catch (error) {
        // Deleted meanwhile.
        if (error instanceof ApiError && error.status === 404) return;
      }
      // The API server is unreachable.
      await delay(RETRY_MS, undefined, { signal }).catch(() => undefined);
    }
  }
}
