/**
 * A running Pod: init containers one after the other, sidecars among them before those that follow, then the ordinary
 * containers. It ends when they have ended for good, or when it is deleted: sidecars last, in reverse order.
 */
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { backoff } from '../../../../src/core/backoff.ts';
import { tempDir } from '../../files.ts';
import type { Namespace, Network } from '../../netns.ts';
import { createScope, type Owner, type Scope } from '../../owner.ts';
import { ApiError, type KubernetesApi } from '../api.ts';
import type { PodLogs } from '../pod-logs.ts';
import { keyOf } from '../watch.ts';
import { PodContainer } from './container.ts';
import { type Phase, type PodStatus, podStatus } from './status.ts';
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

/** What its kubelet gives a Pod. */
export interface PodPlace {
  readonly logs: PodLogs;
  /** Of its network namespace. */
  readonly label: string;
  /** Receives what is tried again. */
  failed(message: string): void;
}

/** Delays between attempts, ms. */
const [FIRST_RETRY_MS, LONGEST_RETRY_MS] = [100, 2_000];
/** The end of what a failed container wrote. */
const [OUTPUT_LINES, OUTPUT_LENGTH] = [10, 2_048];
/** Kubernetes' own default, seconds. */
const GRACE_SECONDS = 30;

export class RunningPod {
  readonly #pod: Pod;
  readonly #options: PodOptions;
  readonly #place: PodPlace;
  readonly #scope: Scope = createScope();
  /** Its end is that of the Pod; the logs of processes are printed where it has failed. */
  readonly #parent: Owner;
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
  #closed: Promise<void> | undefined;

  constructor(owner: Owner, pod: Pod, options: PodOptions, place: PodPlace) {
    this.#parent = owner;
    this.#pod = pod;
    this.#options = options;
    this.#place = place;
  }

  get uid(): string | undefined {
    return this.#pod.metadata.uid;
  }

  get status(): PodStatus {
    return podStatus(this.#pod, {
      phase: this.#phase,
      podIP: this.#address,
      message: this.#message,
      initialized: this.#initialized,
      containers: this.#containers,
    });
  }

  container(name: string): PodContainer | undefined {
    return this.#containers.get(name);
  }

  /** Returns at once; what cannot be done yet becomes the Pod's status, and is tried again. */
  start(): void {
    this.#report();
    this.#finished = this.#run().catch((error: unknown) => {
      this.#failed(messageOf(error));
      this.#report();
    });
  }

  /**
   * Ends its processes; settles when they have ended and the namespace is removed. Called once more with a shorter
   * time, it ends them earlier.
   */
  async stop(graceSeconds = this.#pod.spec.terminationGracePeriodSeconds ?? GRACE_SECONDS): Promise<void> {
    this.#ended.abort();
    await this.#endContainers(graceSeconds * 1_000);
    this.#closed ??= this.#close();
    await this.#closed;
  }

  async #close(): Promise<void> {
    await this.#finished;
    await this.#scope.close();
    this.#place.logs.forget(keyOf(this.#pod));
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
    const namespace = await this.#eventually(() => this.#createNamespace());
    if (namespace === undefined) return;
    this.#address = namespace.address;
    const folder = await this.#eventually(() => tempDir(this.#scope));
    const make = folder === undefined ? undefined : await this.#eventually(() => this.#prepare(namespace, folder));
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

  /** Tries again while it fails, and says why; undefined when the Pod has ended before. */
  async #eventually<T>(attempt: () => Promise<T>): Promise<T | undefined> {
    const { signal } = this.#ended;
    for (let failures = 1; !signal.aborted; failures++) {
      try {
        const made = await attempt();
        this.#message = undefined;
        return made;
      } catch (error) {
        this.#failed(messageOf(error));
        this.#report();
      }
      await this.#pause(failures);
    }
    return undefined;
  }

  #failed(message: string): void {
    this.#message = message;
    this.#place.failed(message);
  }

  async #pause(failures: number): Promise<void> {
    const ms = backoff(failures, FIRST_RETRY_MS, LONGEST_RETRY_MS, Math.random);
    await delay(ms, undefined, { signal: this.#ended.signal }).catch(() => undefined);
  }

  /** An owner that ends with the Pod, or before it when `close` is called. */
  #ownerOf(scope: Scope): Owner {
    const parent = this.#parent;
    return {
      after: scope.after,
      get error() {
        return parent.error;
      },
    };
  }

  /** What a failed attempt has made is removed. */
  async #createNamespace(): Promise<Namespace> {
    const attempt = createScope();
    try {
      const namespace = await this.#options.network.addNamespace(this.#place.label, this.#ownerOf(attempt));
      for (const { name, value } of this.#pod.spec.securityContext?.sysctls ?? [])
        await namespace.run('sysctl', '-q', '-w', `${name}=${value}`);
      this.#scope.after(attempt.close);
      return namespace;
    } catch (error) {
      await attempt.close();
      throw error;
    }
  }

  /** Writes what containers mount; returns what makes them. */
  async #prepare(namespace: Namespace, folder: string): Promise<(container: Container) => PodContainer> {
    const { api, images } = this.#options;
    const { logs } = this.#place;
    const pod = this.#pod;
    await chmod(folder, 0o755);
    const volumes = join(folder, 'volumes');
    await writeVolumes(volumes, { api, pod, podIP: namespace.address });
    const hosts = join(folder, 'hosts');
    await writeFile(hosts, this.#hosts(namespace.address));
    return (container) => {
      const log = `${keyOf(pod)}/${container.name}`;
      const made = new PodContainer({
        ...{ pod, container, images, namespace, volumes, hosts, onOutput: logs.writer(log) },
        lastOutput: () => logs.tail(log, OUTPUT_LINES).slice(-OUTPUT_LENGTH),
        read: keyReader({ api, pod }),
        failed: (message) => this.#place.failed(`container ${container.name}: ${message}`),
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

  /** Writes the status, after writes that have not ended yet. */
  #report(): void {
    this.#reporting = this.#reporting.then(() => this.#write());
  }

  async #write(): Promise<void> {
    const { signal } = this.#ended;
    const { uid } = this.#pod.metadata;
    for (let failures = 1; !signal.aborted; failures++) {
      const { status } = this;
      const text = JSON.stringify(status);
      if (text === this.#reported) return;
      try {
        // Another Pod may have got the name: with the uid, the API server refuses the status for it.
        await this.#options.api.patch(this.#pod, { metadata: { uid }, status }, 'status');
        this.#reported = text;
        return;
      } catch (error) {
        // Deleted meanwhile.
        if (error instanceof ApiError && error.status === 404) return;
        this.#place.failed(`status: ${messageOf(error)}`);
      }
      await this.#pause(failures);
    }
  }
}
