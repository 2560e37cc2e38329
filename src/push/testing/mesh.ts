/**
 * A whole engine on real snapshots, for tests: resources as a user writes them, proxies that acknowledge all they are
 * told, and a generator whose jobs end when the test says so.
 */
import assert from 'node:assert/strict';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { ProxyNode } from '../../core/proxy.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { byXdsType, type XdsType } from '../../core/xds-types.ts';
import { modelSettings } from '../../discovery/config/model-settings.ts';
import { createModel, modelOf, replay } from '../../model/testing/steps.ts';
import type { ChangeSet, Snapshot } from '../../model/types/types.ts';
import { parseResource } from '../../resources/index.ts';
import { type AnyResource, keyOf, type ResourceChange } from '../../resources/kinds/types.ts';
import { defaultMeshConfig, defaultMeshNetworks, type MeshNetworks } from '../../resources/mesh-config.ts';
import { defaultDiscoverySettings } from '../../settings/index.ts';
import { Engine } from '../engine/engine.ts';
import type { EngineOptions } from '../engine/engine-options.ts';
import { type GeneratedJob, type Generator, InlineGenerator, type JobSource } from '../jobs/generator.ts';
import type { Push } from '../push.ts';
import type { ProxySession, PushOutcome, PushSink } from '../types.ts';

export function parse(document: unknown): AnyResource {
  const parsed = parseResource(document, { source: 'test' }, () => undefined);
  assert.ok('resource' in parsed, JSON.stringify(parsed));
  return parsed.resource;
}

export function service(namespace: string, name: string, extra: object = {}): AnyResource {
  const spec = { clusterIP: '10.9.0.1', ports: [{ name: 'http', port: 80, targetPort: 8080 }], ...extra };
  return parse({ apiVersion: 'v1', kind: 'Service', metadata: { name, namespace }, spec });
}

export function endpoints(namespace: string, name: string, ...ips: string[]): AnyResource {
  const subsets = [{ addresses: ips.map((ip) => ({ ip })), ports: [{ name: 'http', port: 8080 }] }];
  return parse({ apiVersion: 'v1', kind: 'Endpoints', metadata: { name, namespace }, subsets });
}

export function meshResource(kind: string, namespace: string, name: string, spec: object): AnyResource {
  const security = kind === 'PeerAuthentication' || kind === 'AuthorizationPolicy';
  const apiVersion = security ? 'security.mesh.io/v1beta1' : 'networking.mesh.io/v1alpha3';
  return parse({ apiVersion, kind, metadata: { name, namespace }, spec });
}

export function virtualService(namespace: string, name: string, timeout: string): AnyResource {
  return meshResource('VirtualService', namespace, name, {
    hosts: [name],
    exportTo: ['.'],
    http: [{ route: [{ destination: { host: name } }], timeout }],
  });
}

export function sidecar(address: string, namespace: string): ProxyNode {
  return {
    id: `sidecar~${address}~pod.${namespace}~${namespace}.svc.cluster.local`,
    type: 'sidecar',
    addresses: [address],
    workload: `pod.${namespace}`,
    namespace,
    dnsDomain: `${namespace}.svc.cluster.local`,
    labels: {},
    interception: 'REDIRECT',
    clusterId: 'Orchestrator',
    network: '',
    serviceAccount: '',
    identity: undefined,
    locality: '',
    extensions: undefined,
    version: '1.40.0',
    meshVersion: '',
    metadata: '',
    discoversVirtualHosts: false,
    shortEndpointNames: false,
    sds: false,
  };
}

/** A snapshot of nothing, version 1. */
export function emptySnapshot(): Snapshot {
  return emptyModel(defaultMeshNetworks());
}

/** The same of a mesh with these networks. */
export function emptyModel(networks: MeshNetworks): Snapshot {
  const mesh = defaultMeshConfig();
  return createModel(modelSettings(defaultDiscoverySettings(), mesh), mesh, networks);
}

/** The snapshot of these resources. */
export function snapshotOf(resources: readonly AnyResource[]): Snapshot {
  return replay(emptySnapshot(), resources);
}

/** The whole engine on real snapshots, with sinks that record their pushes. */
export class Mesh {
  readonly model = modelOf(emptySnapshot());
  /** Milliseconds that the engine's clock is ahead. */
  ahead = 0;
  /** What the engine is given instead of a snapshot. */
  distorted: (snapshot: Snapshot) => Snapshot = (snapshot) => snapshot;
  readonly engine: Engine;
  readonly generator: Generator;
  readonly converged: number[] = [];
  readonly failures: string[] = [];
  readonly recovered: string[] = [];
  /** How trials ended. */
  readonly trials: string[] = [];
  /** Names of what was withheld. */
  readonly withheld: string[] = [];
  /** Retries that wait, until {@link retry} or their time. */
  readonly timers = new Set<{ readonly ms: number; readonly run: () => void }>();
  readonly #resources = new Map<string, AnyResource>();

  constructor(
    makeGenerator: (snapshot: Snapshot) => Generator,
    resources: readonly AnyResource[] = [],
    options: Partial<Pick<EngineOptions, 'canaryAbove' | 'concerned' | 'laterClusters' | 'leadsTo' | 'random'>> = {},
  ) {
    this.model.apply({ changes: this.#changes(resources), eventTime: 0 });
    this.generator = makeGenerator(this.snapshot);
    this.engine = new Engine({
      snapshot: this.snapshot,
      scopes: this.model,
      generator: this.generator,
      throttle: 10,
      now: () => performance.now() + this.ahead,
      later: (ms, run) => this.later(ms, run),
      random: () => 0,
      ...options,
      observer: {
        triggered: () => {},
        converged: (milliseconds) => this.converged.push(milliseconds),
        queueWaited: () => {},
        stage: () => {},
        generated: () => {},
        pushBegan: () => {},
        pushEnded: () => {},
        failed: (message) => this.failures.push(message),
        labelsIgnored: (service, labels) => this.failures.push(`${service}: ${labels.join()}`),
        viewFailed: ({ view, failures, error }) => {
          if (failures === 1) this.failures.push(`${view}: ${error}`);
        },
        viewRecovered: (view) => this.recovered.push(view),
        tried: (result) => this.trials.push(result),
        withheld: (resources) => this.withheld.push(...resources.map(({ name }) => name)),
      },
    });
  }

  get snapshot(): Snapshot {
    return this.model.snapshot;
  }

  later(ms: number, run: () => void): { cancel(): void } {
    const timer = { ms, run };
    this.timers.add(timer);
    return { cancel: () => this.timers.delete(timer) };
  }

  /** Lets the time of all that waits come. */
  retry(): void {
    for (const timer of [...this.timers]) {
      this.timers.delete(timer);
      timer.run();
    }
  }

  #changes(resources: readonly AnyResource[], deletes: readonly string[] = []): ResourceChange[] {
    const changes: ResourceChange[] = [];
    for (const after of resources) {
      const key = keyOf(after);
      changes.push({ key, before: this.#resources.get(key), after });
      this.#resources.set(key, after);
    }
    for (const key of deletes) {
      changes.push({ key, before: this.#resources.get(key), after: undefined });
      this.#resources.delete(key);
    }
    return changes;
  }

  change(resources: readonly AnyResource[], deletes: readonly string[] = []): ChangeSet {
    const change = this.model.apply({ changes: this.#changes(resources, deletes), eventTime: performance.now() });
    this.engine.publish({ ...change, snapshot: this.distorted(change.snapshot) });
    return change.changes;
  }

  /** A proxy that acknowledges all pushes, unless `answer` decides their outcomes. */
  connect(
    node: ProxyNode,
    answer?: (session: ProxySession) => Promise<PushOutcome>,
    caller = `of ${node.namespace}`,
  ): Connected {
    const pushes: Push[] = [];
    const seen: Content[] = [];
    let session: ProxySession | undefined;
    const sink: PushSink = {
      push: (push) => {
        pushes.push(push);
        // A view that is there already: the push comes before `connect` has returned.
        if (session === undefined) return Promise.resolve('nothing');
        seen.push(content(session));
        if (answer !== undefined) return answer(session);
        session.synced(session.version());
        return Promise.resolve('sent');
      },
    };
    const made = this.engine.connect(node, sink, caller);
    session = made;
    return { session: made, pushes, seen };
  }

  /** True when no session says that a change is on its way to it. */
  allSettled(): boolean {
    return [...this.engine.sessions()].every((session) => session.settled);
  }

  #isIdle(): boolean {
    const failing = new Set(this.engine.failing().map(({ view }) => view));
    const busy = [...this.engine.views()].some(
      (view) => view.sessions.size > 0 && (view.inFlight || (view.isDirty && !failing.has(view.key))),
    );
    const { queued, underWay } = this.engine.stats();
    return !busy && queued === 0 && underWay === 0;
  }

  /** Waits until nothing is generated or queued any more. A new worker may need seconds to load its code. */
  async settled(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 2));
    await waitUntil(() => this.#isIdle(), { what: () => 'the engine comes to rest' });
  }

  /** The same, and until no view fails: what failed with a worker is tried again. */
  async settledWithoutFailures(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 2));
    const step = async (): Promise<void> => this.retry();
    const isDone = (): boolean => this.engine.failing().length === 0 && this.#isIdle();
    await waitUntil(isDone, { step, what: () => 'the engine comes to rest, and no view fails' });
  }
}

/** Names and versions of what a session should have. */
export type Content = Record<XdsType, [string, string][]>;

export interface Connected {
  readonly session: ProxySession;
  readonly pushes: Push[];
  /** What the session should have had at each push. */
  readonly seen: Content[];
}

export function content(session: ProxySession): Content {
  const of = (type: XdsType) =>
    session
      .parts(type)
      .flatMap((part) => part.resources().map(({ name, version }): [string, string] => [name, version]));
  return byXdsType(of);
}

export const inline = (snapshot: Snapshot): Generator => new InlineGenerator(snapshot);

interface Held {
  readonly source: JobSource;
  readonly resolve: (made: Promise<GeneratedJob>) => void;
  readonly reject: (error: unknown) => void;
}

/** Jobs wait until the test lets them go, in the order it likes. */
export class HeldGenerator implements Generator {
  readonly #inner: InlineGenerator;
  readonly waiting: Held[] = [];
  held = false;

  constructor(snapshot: Snapshot) {
    this.#inner = new InlineGenerator(snapshot);
  }

  advance(snapshot: Snapshot): void {
    this.#inner.advance(snapshot);
  }

  submit(source: JobSource): Promise<GeneratedJob> {
    if (!this.held) return this.#inner.submit(source);
    return new Promise((resolve, reject) => this.waiting.push({ source, resolve, reject }));
  }

  released(): void {}

  withdraw(source: JobSource): boolean {
    const index = this.waiting.findIndex((held) => held.source === source);
    if (index >= 0) this.waiting.splice(index, 1);
    return index >= 0 || this.#inner.withdraw(source);
  }

  /** Runs (or with `error` fails) the waiting jobs of views whose key begins so. */
  release(prefix: string, error?: Error): void {
    for (const held of this.waiting.filter(({ source }) => source.key.startsWith(prefix))) {
      this.waiting.splice(this.waiting.indexOf(held), 1);
      if (error === undefined) held.resolve(this.#inner.submit(held.source));
      else held.reject(error);
    }
  }

  close(): Promise<void> {
    return this.#inner.close();
  }
}

/** Collects garbage. Finalizers run in a later turn of the event loop. */
export async function collectGarbage(): Promise<void> {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  // What a WeakRef has given is held to the end of the turn.
  await new Promise((resolve) => setImmediate(resolve));
  gc();
}

/** Lets promises and immediates that are due now run. */
export async function turns(count = 5): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** Waits until all is settled, and forgets what was pushed till then. */
export async function ready(mesh: Mesh, ...proxies: Connected[]): Promise<void> {
  await Promise.all(proxies.map(({ session }) => session.ready));
  await mesh.settled();
  for (const { pushes, seen } of proxies) {
    pushes.length = 0;
    seen.length = 0;
  }
}

/** A mesh whose generator delays its answers when the test requires it. */
export function heldMesh(resources: readonly AnyResource[] = []): { mesh: Mesh; generator: HeldGenerator } {
  let generator: HeldGenerator | undefined;
  const mesh = new Mesh((snapshot) => {
    generator = new HeldGenerator(snapshot);
    return generator;
  }, resources);
  assert.ok(generator !== undefined);
  return { mesh, generator };
}
