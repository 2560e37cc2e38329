/**
 * The engine as a whole: after any changes, with proxies that connect and disconnect in between, each proxy has what a
 * new engine without caches would give it. A change that leaves a proxy's configuration as it is sends it nothing.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { systemClock } from '../src/core/clock.ts';
import * as fc from '../src/core/testing/properties.ts';
import { encodeEndpoints, isClientView, resolveEndpoints } from '../src/generate/index.ts';
import { Model } from '../src/model/index.ts';
import { DEFAULT_SETTINGS } from '../src/model/testing/settings.ts';
import type { Snapshot } from '../src/model/types/types.ts';
import { contentVersion } from '../src/push/bundles/encode-resource.ts';
import { Engine } from '../src/push/engine/engine.ts';
import { InlineGenerator } from '../src/push/jobs/generator.ts';
import { placementOf, viewsOf } from '../src/push/proxies/proxy-views.ts';
import { Session } from '../src/push/sessions/session.ts';
import { type Content, content } from '../src/push/testing/mesh.ts';
import type { ProxySession, PushOutcome, PushSink, ResourceAnswer } from '../src/push/types.ts';
import type { AnyResource, ResourceKey } from '../src/resources/kinds/types.ts';
import { defaultMeshConfig, defaultMeshNetworks, type MeshNetworks } from '../src/resources/mesh-config.ts';
import { proxyNode } from './golden-harness/input.ts';
import { type Edit, FIRST, NODES as KINDS, merged, NETWORKS, STEP, stepOf } from './golden-harness/random-mesh.ts';

/** Some of them share views with others, in other localities and networks. Others are those of Pods. */
const NODES = [
  ...KINDS,
  proxyNode('far', { address: '10.0.9.4', namespace: 'c', locality: 'r2/z1' }),
  proxyNode('web-1', { address: '10.0.0.1', namespace: 'a', labels: { app: 'web' }, account: 'web' }),
  proxyNode('edge-1', { type: 'router', address: '10.0.8.8', namespace: 'b', account: 'edge', sds: true }),
  proxyNode('foreign', { address: '10.0.9.3', namespace: 'c', locality: 'r1/z1', network: 'n2' }),
];

/** A proxy that acknowledges everything. */
class Client implements PushSink {
  session: ProxySession | undefined;
  /**
   * Pushes, except for moves to other views or placements with equal content: only a stream can tell that there is
   * nothing to send.
   */
  pushes = 0;
  #views = '';
  #current: Content | undefined;

  answerOf(): ResourceAnswer {
    return 'accepted';
  }

  push(): Promise<PushOutcome> {
    // If the views exist already, the push happens before `connect` has returned.
    if (this.session === undefined) return Promise.resolve('nothing');
    this.session.synced(this.session.version());
    queueMicrotask(() => this.session?.answered());
    const before = { views: this.#views, current: this.#current };
    this.#remember(this.session);
    if (this.#views !== before.views && isDeepStrictEqual(this.#current, before.current))
      return Promise.resolve('nothing');
    this.pushes++;
    return Promise.resolve('sent');
  }

  /** Called when all is settled: the proxy may have moved to views with equal content without a push. */
  settled(): void {
    if (this.session !== undefined) this.#remember(this.session);
  }

  /** The session that the engine created, and the current content of its views. */
  connected(session: ProxySession): void {
    this.session = session;
    this.#remember(session);
  }

  #remember(session: ProxySession): void {
    assert.ok(session instanceof Session);
    this.#views = session.allViews.map(({ view, key }) => `${view.key} ${key}`).join();
    this.#current = content(session);
  }

  get content(): Content {
    assert.ok(this.session !== undefined);
    return content(this.session);
  }
}

class World {
  readonly engine: Engine;
  readonly failures: string[] = [];
  readonly proxies = new Map<number, Client>();
  readonly #resources = new Map<ResourceKey, AnyResource>();
  readonly #model: Model;

  /** @param canaryAbove see EngineOptions */
  constructor(model = emptyModel(), canaryAbove = Number.POSITIVE_INFINITY) {
    const { snapshot } = model;
    this.#model = model;
    this.engine = new Engine({
      snapshot,
      scopes: model,
      generator: new InlineGenerator(snapshot),
      throttle: 3,
      canaryAbove,
      now: () => performance.now(),
      later: systemClock.setTimer,
      random: () => 0,
      observer: {
        triggered: () => {},
        converged: () => {},
        queueWaited: () => {},
        stage: () => {},
        generated: () => {},
        pushBegan: () => {},
        pushEnded: () => {},
        failed: (message) => this.failures.push(message),
        viewFailed: ({ error }) => this.failures.push(error),
        labelsIgnored: () => {},
        viewRecovered: () => {},
        tried: () => {},
        withheld: () => {},
      },
    });
  }

  change(edits: readonly Edit[], networks: MeshNetworks = this.#model.snapshot.networks): void {
    this.engine.publish(this.#model.apply({ changes: merged(edits, this.#resources), networks, eventTime: 0 }));
  }

  /** Connects the proxy, or disconnects it when it is connected. */
  toggle(index: number, node = NODES[index % NODES.length]): void {
    const known = this.proxies.get(index);
    if (known !== undefined) {
      known.session?.close();
      this.proxies.delete(index);
    } else if (node !== undefined) {
      const proxy = new Client();
      proxy.connected(this.engine.connect(node, proxy, 'caller'));
      this.proxies.set(index, proxy);
    }
  }

  async settled(): Promise<void> {
    for (let turns = 0; turns < 1000; turns++) {
      await new Promise((resolve) => setImmediate(resolve));
      const { queued, underWay } = this.engine.stats();
      if (queued + underWay === 0 && [...this.engine.sessions()].every(({ settled }) => settled)) return;
    }
    assert.fail('the engine does not become idle');
  }

  /**
   * The content that a new engine gives, with all endpoints encoded separately. A proxy keeps the labels of its Pod
   * when that is deleted.
   */
  async fresh(index: number): Promise<Content> {
    const model = emptyModel(this.#model.snapshot.networks);
    const changes = [...this.#resources].map(([key, after]) => ({ key, before: undefined, after }));
    model.apply({ changes, eventTime: 0 });
    const world = new World(model);
    world.toggle(index, this.proxies.get(index)?.session?.node);
    const session = world.proxies.get(index)?.session;
    assert.ok(session !== undefined);
    await session.ready;
    assert.deepEqual(world.failures, []);
    return sorted({ ...content(session), eds: endpointsAfresh(world.engine.snapshot, session) });
  }
}

function emptyModel(networks = defaultMeshNetworks()): Model {
  return Model.empty(DEFAULT_SETTINGS, defaultMeshConfig(), networks);
}

/** The endpoints that a proxy's clusters name, generated without any cache of the engine. */
function endpointsAfresh(snapshot: Snapshot, session: ProxySession): Content['eds'] {
  const found: Content['eds'] = [];
  const placement = placementOf(snapshot, session.node);
  for (const view of viewsOf(snapshot, session.node)) {
    if (!isClientView(view)) continue;
    for (const { name, refs } of session.parts('cds').flatMap((part) => part.resources())) {
      const input = refs.length === 0 ? undefined : resolveEndpoints(snapshot, view, placement, name);
      if (input !== undefined) found.push([input.name, contentVersion(encodeEndpoints(input))]);
    }
  }
  return found;
}

/** Only versions are compared: tests of bundles cover their order. */
function sorted({ cds, eds, sds, ecds, lds, rds, vhds, nds }: Content): Content {
  const byName = (list: Content['cds']) => list.toSorted(([a], [b]) => (a < b ? -1 : 1));
  return {
    cds: byName(cds),
    eds: byName(eds),
    sds: byName(sds),
    ecds: byName(ecds),
    lds: byName(lds),
    rds: byName(rds),
    vhds: byName(vhds),
    nds: byName(nds),
  };
}

const toggles = fc.array(fc.nat(NODES.length * 2 - 1), { maxLength: 2 });
/** Rare, because it makes all views again. */
const networks = fc.oneof(
  { weight: 6, arbitrary: fc.constant(undefined) },
  { weight: 1, arbitrary: fc.constantFrom(...NETWORKS) },
);
/** Labels of Pods change more often than by chance. */
const edits = fc.oneof({ weight: 3, arbitrary: STEP }, { weight: 1, arbitrary: stepOf('Pod') });
const steps = fc.array(fc.record({ edits, networks, toggles, wait: fc.boolean() }), {
  minLength: 1,
  maxLength: 10,
});

const RUNS = [
  { how: '', canaryAbove: Number.POSITIVE_INFINITY, numRuns: 14 },
  { how: ', after canaries have tried it', canaryAbove: 1, numRuns: 5 },
];
for (const { how, canaryAbove, numRuns } of RUNS)
  test(`every proxy has what a new engine gives it${how}, and receives nothing that it has already`, async () => {
    await fc.assert(
      fc.asyncProperty(FIRST, steps, async (base, plan) => {
        const world = new World(emptyModel(), canaryAbove);
        world.change(base);
        for (const index of NODES.keys()) world.toggle(index);
        for (const { edits, networks: become, toggles: toggled, wait } of plan) {
          if (wait) {
            await world.settled();
            for (const proxy of world.proxies.values()) proxy.settled();
          }
          const before = [...world.proxies].map(([index, proxy]) => ({
            index,
            proxy,
            had: proxy.content,
            pushes: proxy.pushes,
          }));
          world.change(edits, become);
          for (const index of toggled) world.toggle(index);
          if (!wait) continue;
          await world.settled();
          for (const { index, proxy, had, pushes } of before) {
            if (world.proxies.get(index) !== proxy || proxy.pushes === pushes) continue;
            assert.notDeepEqual(proxy.content, had, `proxy ${index} was pushed what it has`);
          }
        }
        await world.settled();
        assert.deepEqual(world.failures, []);
        for (const [index, proxy] of world.proxies) {
          assert.deepEqual(sorted(proxy.content), await world.fresh(index), `proxy ${index}`);
        }
      }),
      { numRuns },
    );
  });
