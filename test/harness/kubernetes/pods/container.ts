/** The life of one container: its process, hooks, probes and restarts. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Namespace } from '../../netns.ts';
import { environmentOf, expand, type ReadKey } from './fields.ts';
import { failuresOf, handle, listeningPorts, patienceMs, probeFailure, type Target } from './probes.ts';
import { type ContainerProcess, type Mount, startProcess } from './process.ts';
import { type Container, type ContainerStart, type Image, messageOf, type Pod, tcpPorts } from './types.ts';

/** How often a container is probed before it is ready, and afterwards: at least as often as its probes ask. */
const STARTING_POLL_MS = 50;
const READY_POLL_MS = 500;
/** The delay before a restart, so that a container that ends at once does not cause a busy loop. */
const RESTART_MS = 500;
/** Hooks after the start have no limit of their own. */
const HOOK_TIMEOUT_MS = 120_000;
/** Not a code of a program. */
const NOT_STARTED = 128;
/** The time to end of a container whose probe has failed. */
const UNHEALTHY_GRACE_MS = 5_000;

export interface ContainerOptions {
  readonly pod: Pod;
  readonly container: Container;
  readonly images: Readonly<Record<string, Image>>;
  readonly namespace: Namespace;
  readonly read: ReadKey;
  /** Folder with the Pod's volumes by name. */
  readonly volumes: string;
  /** A file with lines of hosts(5). */
  readonly hosts: string;
  readonly onOutput: (text: string) => void;
  /** The end of its output. */
  readonly lastOutput: () => string;
  /** Receives why it could not be started: it is tried again. */
  readonly failed: (message: string) => void;
  /** After each change of what `PodContainer` shows. */
  readonly changed: () => void;
}

export type ContainerState =
  | { readonly kind: 'waiting'; readonly message: string | undefined }
  | { readonly kind: 'running'; readonly since: Date }
  /** With the end of what it wrote, when it failed. */
  | { readonly kind: 'ended'; readonly code: number; readonly output: string | undefined };

export class PodContainer {
  readonly #options: ContainerOptions;
  readonly #ended = new AbortController();
  readonly #launched = Promise.withResolvers<void>();
  readonly #started = Promise.withResolvers<void>();
  #process: ContainerProcess | undefined;
  #finished: Promise<unknown> = Promise.resolve();
  state: ContainerState = { kind: 'waiting', message: undefined };
  started = false;
  ready = false;
  /** Why it is not ready although it runs. */
  unready: string | undefined;
  restarts = 0;

  constructor(options: ContainerOptions) {
    this.#options = options;
  }

  get spec(): Container {
    return this.#options.container;
  }

  /** Settles when its process has been started once and its hook has ended, or when it has ended. */
  get launched(): Promise<void> {
    return this.#launched.promise;
  }

  /** Settles when its startup probe has succeeded once, or when it has ended. */
  get hasStarted(): Promise<void> {
    return this.#started.promise;
  }

  /** Runs it again as long as `again` is true of its exit code and `end` was not called; returns the last code. */
  run(again: (code: number) => boolean): Promise<number> {
    const running = this.#run(again);
    this.#finished = running;
    return running;
  }

  /** Runs a command in it; returns its stdout. */
  async execute(command: readonly string[], timeoutMs: number): Promise<string> {
    if (this.#process === undefined) throw new Error(`container ${this.spec.name} does not run`);
    return this.#process.execute(command, timeoutMs);
  }

  /** Ends its process with SIGKILL: it is restarted as its Pod says. */
  async kill(): Promise<void> {
    await this.#process?.end(0);
  }

  /** Ends it in order, with its hook; SIGKILL after the time. */
  async end(graceMs: number): Promise<void> {
    const deadline = performance.now() + graceMs;
    this.#ended.abort();
    const { preStop } = this.spec.lifecycle ?? {};
    if (this.#process !== undefined) {
      if (preStop !== undefined && graceMs > 0) {
        const hook = handle(preStop, this.#target(this.#process), graceMs).catch(this.#hookFailed('preStop'));
        await Promise.race([hook, this.#process.exited, delay(graceMs, undefined, { ref: false })]);
      }
      await this.#process.end(Math.max(0, deadline - performance.now()));
    }
    await this.#finished.catch(() => undefined);
  }

  async #run(again: (code: number) => boolean): Promise<number> {
    const { signal } = this.#ended;
    try {
      for (;;) {
        const code = await this.#runOnce();
        if (code !== undefined) this.#showEnd(code);
        if (code !== undefined && !again(code)) return code;
        await delay(RESTART_MS, undefined, { signal }).catch(() => undefined);
        if (signal.aborted) return code ?? NOT_STARTED;
        if (code !== undefined) this.restarts++;
      }
    } finally {
      this.#launched.resolve();
      this.#started.resolve();
    }
  }

  #showEnd(code: number): void {
    const output = code === 0 ? undefined : this.#options.lastOutput();
    this.#show({ state: { kind: 'ended', code, output }, ready: false, started: false, unready: undefined });
  }

  /** The exit code; undefined when it could not be started. */
  async #runOnce(): Promise<number | undefined> {
    const { signal } = this.#ended;
    let process: ContainerProcess;
    try {
      process = await this.#start();
    } catch (error) {
      this.#options.failed(messageOf(error));
      this.#show({ state: { kind: 'waiting', message: messageOf(error) } });
      return undefined;
    }
    this.#process = process;
    if (signal.aborted) await process.end(0);
    const { postStart } = this.spec.lifecycle ?? {};
    if (postStart !== undefined)
      await this.#afterStart(process, handle(postStart, this.#target(process), HOOK_TIMEOUT_MS));
    this.#show({ state: { kind: 'running', since: new Date() } });
    this.#launched.resolve();
    const ended = new AbortController();
    const watched = this.#watch(process, ended.signal);
    const code = await process.exited;
    this.#process = undefined;
    ended.abort();
    await watched;
    return code;
  }

  /** A container whose hook fails is ended. */
  async #afterStart(process: ContainerProcess, hook: Promise<void>): Promise<void> {
    const failed = hook.catch(async (error: unknown) => {
      this.#hookFailed('postStart')(error);
      await process.end(UNHEALTHY_GRACE_MS);
    });
    await Promise.race([failed, process.exited]);
  }

  /** In the log of the container. */
  #hookFailed(hook: string): (error: unknown) => void {
    return (error) => this.#options.onOutput(`${hook}: ${messageOf(error)}\n`);
  }

  async #start(): Promise<ContainerProcess> {
    const { pod, container, images, namespace, read, volumes, hosts, onOutput } = this.#options;
    const image = images[container.image];
    if (image === undefined) throw new Error(`the simulated kubelet has no image ${container.image}`);
    const env = await environmentOf(pod, container, namespace.address, read);
    const args = (container.args ?? []).map((text) => expand(text, env));
    const { name } = container;
    const start: ContainerStart = {
      ...{ name, args, env },
      ports: tcpPorts(container),
      podIP: namespace.address,
      podName: pod.metadata.name,
    };
    const made = image(start);
    const from = 'argv' in made ? made : { argv: made };
    const command = container.command?.map((text) => expand(text, env));
    const mounts: Mount[] = [
      ...Object.entries(from.files ?? {}).map(([target, source]) => ({ source, target, readOnly: true })),
      { source: hosts, target: '/etc/hosts', readOnly: true },
      ...(container.volumeMounts ?? []).map(({ name: volume, mountPath, subPath = '', readOnly = false }) => {
        if (pod.spec.volumes?.some((candidate) => candidate.name === volume) !== true)
          throw new Error(`the Pod has no volume ${volume}`);
        return { source: `${volumes}/${volume}/${subPath}`, target: mountPath, readOnly };
      }),
    ];
    return startProcess(namespace, pod, container, {
      name: `${pod.metadata.namespace}/${pod.metadata.name}/${name}`,
      argv: command === undefined ? from.argv : [...command, ...args],
      env: { ...from.env, ...env },
      mounts,
      onOutput: (text) => {
        onOutput(text);
        from.onOutput?.(text);
      },
    });
  }

  #target(process: ContainerProcess): Target {
    return { container: this.spec, process, podIP: this.#options.namespace.address };
  }

  /** Probes the container until it has ended, and ends it where a probe says so. */
  async #watch(process: ContainerProcess, signal: AbortSignal): Promise<void> {
    const { startupProbe, livenessProbe } = this.spec;
    const target = this.#target(process);
    let healthy = performance.now();
    /** Probes of readiness that have failed one after the other. */
    let failures = 0;
    const check = async (): Promise<boolean> => {
      const probe = this.started ? livenessProbe : startupProbe;
      const failure = probe && (await probeFailure(probe, target));
      if (probe === undefined || failure === undefined) healthy = performance.now();
      else {
        if (!signal.aborted) this.#show({ unready: `${this.started ? 'liveness' : 'startup'} probe: ${failure}` });
        return performance.now() - healthy < patienceMs(probe);
      }
      if (!this.started && !signal.aborted) {
        this.#show({ started: true });
        this.#started.resolve();
      }
      return true;
    };
    while (!signal.aborted) {
      const alive = await check();
      const unready = alive && this.started ? await this.#whyUnready(target) : this.unready;
      if (signal.aborted) return;
      failures = unready === undefined ? 0 : failures + 1;
      const endures = this.ready && failures < failuresOf(this.spec.readinessProbe);
      const ready = alive && (unready === undefined || endures);
      this.#show({ ready, unready: ready ? undefined : unready });
      // Not awaited: its end ends this loop.
      if (!alive && !this.#ended.signal.aborted) void process.end(UNHEALTHY_GRACE_MS);
      await delay(ready ? READY_POLL_MS : STARTING_POLL_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Undefined when it is ready: without a probe, when its declared ports are open; tests need not declare one. */
  async #whyUnready(target: Target): Promise<string | undefined> {
    const { readinessProbe } = this.spec;
    if (readinessProbe !== undefined) {
      const failure = await probeFailure(readinessProbe, target);
      return failure === undefined ? undefined : `readiness probe: ${failure}`;
    }
    const ports = tcpPorts(this.spec);
    const pid = await target.process.pid();
    if (pid === undefined) return 'its process has ended';
    if (ports.length === 0) return undefined;
    const listening = await listeningPorts(pid);
    const closed = ports.filter((port) => !listening.has(port));
    return closed.length === 0 ? undefined : `closed ports: ${closed.join()}`;
  }

  #show(change: Partial<Pick<PodContainer, 'state' | 'started' | 'ready' | 'unready'>>): void {
    const shown = () => JSON.stringify([this.state, this.started, this.ready, this.unready]);
    const before = shown();
    Object.assign(this, change);
    if (before !== shown()) this.#options.changed();
  }
}
