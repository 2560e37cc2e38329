/**
 * What proxies on demand have is made from what they had, and shared: it is what a proxy would get that asks for all of
 * it now, without anything remembered.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Memos } from '../../core/memo.ts';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import * as fc from '../../core/testing/properties.ts';
import { byXdsType, XDS_TYPES, type XdsType } from '../../core/xds-types.ts';
import { isHeldIn, type Parts } from '../../push/index.ts';
import { type DeltaRequest, NameSets } from '../protocol/index.ts';
import { EMPTY_REQUEST, newShared } from '../testing/demand.ts';
import {
  CLUSTERS,
  type Edit,
  edit,
  edited,
  few,
  firstState,
  HOSTS,
  inOtherViews,
  type State,
  versionsOf,
} from '../testing/edited-views.ts';
import { concernedNames } from './concerned-names.ts';
import { Demand } from './demand.ts';
import { SharedDemand } from './shared-demand.ts';
import type { Given } from './stream-demand.ts';

const PROXIES = 3;
const ASKING = { mode: 'on-demand', workload: 'pod.shop', at: 0, since: 0 } as const;
const ASKS = [
  ...['80/a', '80/a:80', '80/b', '80/b:80', '80/api.x', '80/a-db.x', '80/none', '80/*', '80/', '81/a', '81/a:80'],
  ...['80/a:81', '82/a'],
];

/** What may be generated later. */
const LATER = [...HOSTS, ...CLUSTERS];

const proxy = fc.nat(PROXIES - 1);
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('edit' as const), edits: fc.array(edit, { minLength: 1, maxLength: 4 }) }),
  },
  // As a canary does when what it tries is withheld.
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('back' as const), steps: fc.integer({ min: 1, max: 4 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('other views' as const) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('generate' as const), names: few(LATER) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('ask' as const), proxy, names: few(ASKS) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('ask tcp' as const), proxy, names: few(CLUSTERS) }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('had' as const), proxy, hosts: few(HOSTS), clusters: few(CLUSTERS) }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

const some = fc.subarray([...Array(PROXIES).keys()]);
const scenario = fc.record({
  later: fc.subarray(LATER),
  first: fc.array(edit, { maxLength: 24, size: 'medium' }),
  steps: fc.array(fc.record({ step, looking: some, busy: some }), {
    maxLength: 24,
    size: 'medium',
  }),
});

type Held = Record<XdsType, ReadonlyMap<string, string>>;

const heldOf = (parts: Parts): Held => byXdsType((type) => versionsOf(parts[type]));

/** One proxy: what it has asked for, and what it holds. */
class Sidecar {
  readonly #demand: Demand;
  readonly #shared: SharedDemand;
  readonly #requests: { readonly type: XdsType; readonly request: DeltaRequest }[] = [];
  /** Endpoints of clusters that it has had. */
  readonly #endpoints = new Set<string>();
  #held: Held | undefined;
  /** It has not looked yet since something changed that concerns it. */
  isOutdated = true;

  constructor(shared: SharedDemand) {
    this.#shared = shared;
    this.#demand = new Demand(shared, () => {});
  }

  request(type: XdsType, names: readonly string[], had: readonly string[] = []): void {
    const initialVersions = new Map(had.map((name) => [name, '']));
    const request = { ...EMPTY_REQUEST, subscribe: this.#shared.names.of(names), initialVersions };
    this.#requests.push({ type, request });
    this.#demand.receive(type, request, ASKING);
    this.isOutdated = true;
  }

  look(content: Parts, given: Given): void {
    const parts = this.#demand.parts(content, 'on-demand', given);
    for (const bundle of parts.cds)
      for (const { refs } of bundle.resources()) for (const ref of refs) this.#endpoints.add(ref);
    this.#held = heldOf(parts);
    this.isOutdated = false;
    // The view tells the scope of what proxies learn, and which bundles follow others.
    const views = [...content.vhds.map(({ viewKey }) => viewKey), 'absent clusters'];
    for (const { viewKey } of [...parts.vhds, ...parts.cds, ...parts.eds])
      assert.ok(
        views.some((view) => viewKey.startsWith(view)),
        viewKey,
      );
  }

  /** Whether a change concerns it. */
  isConcerned(before: Parts, now: Parts): boolean {
    return XDS_TYPES.some((type) =>
      now[type].some((bundle, part) => {
        const other = before[type][part];
        if (other?.viewKey !== bundle.viewKey) return true;
        if (other === bundle) return false;
        const names = concernedNames(type, other, bundle);
        return names === undefined || this.holds(names);
      }),
    );
  }

  /** Whether it has one of these names, or waits for it. */
  holds(names: readonly string[]): boolean {
    const { held } = this.#demand;
    return held === undefined || names.some((name) => isHeldIn(held, name));
  }

  /** What it would hold if nothing had been remembered. */
  check(content: Parts, given: Given): void {
    const memos = new Memos({ enabled: false });
    const demand = new Demand(new SharedDemand(new NameSets(memos), memos, fakeClock()), () => {});
    for (const { type, request } of this.#requests) demand.receive(type, request, ASKING);
    const fresh = heldOf(demand.parts(content, 'on-demand', given));
    const held = this.#held ?? assert.fail();
    for (const type of XDS_TYPES) if (type !== 'eds') assert.deepEqual(held[type], fresh[type], type);
    // Endpoints stay until Envoy no longer has the cluster.
    const existing = versionsOf(content.eds);
    for (const [name, each] of fresh.eds) assert.equal(held.eds.get(name), each, `eds ${name}`);
    for (const [name, each] of held.eds) {
      assert.equal(existing.get(name), each, `eds ${name}`);
      assert.ok(fresh.eds.has(name) || this.#endpoints.has(name), `eds ${name}`);
    }
  }
}

/** What is generated later: all of these names, until they are taken away. */
function givenWith(later: ReadonlySet<string>): Given {
  const laterClusters = { has: (name: string) => later.has(name), want: () => {}, need: () => undefined };
  return { laterClusters, laterHosts: { ...laterClusters, total: HOSTS.length } };
}

interface Scenario {
  readonly later: readonly string[];
  readonly first: readonly Edit[];
  readonly steps: readonly {
    readonly step: Step;
    /** Proxies that look at what they have, whatever has changed. */
    readonly looking: readonly number[];
    /** Proxies that do not look yet. */
    readonly busy: readonly number[];
  }[];
}

class Run {
  readonly #later: Set<string>;
  readonly #given: Given;
  readonly #proxies: readonly Sidecar[];
  readonly #states: State[];
  #views = 0;

  constructor({ later, first }: Scenario) {
    const shared = newShared();
    this.#later = new Set(later);
    this.#given = givenWith(this.#later);
    this.#proxies = Array.from({ length: PROXIES }, () => new Sidecar(shared));
    this.#states = [edited(firstState(), first, this.#later)];
    this.#check(this.#state.content, [], []);
  }

  get #state(): State {
    return this.#states.at(-1) ?? firstState();
  }

  take({ step, looking, busy }: Scenario['steps'][number]): void {
    const before = this.#state.content;
    this.#states.push(this.#after(step));
    this.#check(before, looking, busy);
  }

  #after(step: Step): State {
    const state = this.#state;
    switch (step.kind) {
      case 'edit':
        return edited(state, step.edits, this.#later);
      case 'back':
        return this.#states.at(-1 - step.steps) ?? state;
      case 'other views':
        return inOtherViews(state, ++this.#views);
      case 'generate':
        for (const name of step.names) this.#later.delete(name);
        for (const each of this.#proxies) each.isOutdated ||= each.holds(step.names);
        return edited(state, [], this.#later);
      default:
        this.#ask(step);
        return state;
    }
  }

  #ask(step: Extract<Step, { readonly proxy: number }>): void {
    const asking = this.#proxies[step.proxy];
    if (step.kind === 'ask') asking?.request('vhds', step.names);
    if (step.kind === 'ask tcp') asking?.request('cds', step.names);
    if (step.kind !== 'had') return;
    asking?.request('cds', [], step.clusters);
    asking?.request('vhds', [], step.hosts);
  }

  /** Proxies look when the change concerns them, or later; those that need not look have what they should have. */
  #check(before: Parts, looking: readonly number[], busy: readonly number[]): void {
    const { content } = this.#state;
    for (const [index, each] of this.#proxies.entries()) {
      each.isOutdated ||= each.isConcerned(before, content);
      if (each.isOutdated ? !busy.includes(index) : looking.includes(index)) each.look(content, this.#given);
      if (!each.isOutdated) each.check(content, this.#given);
    }
  }
}

const ASKED = CLUSTERS[0] ?? '';
/** A proxy asks for a cluster that it had, and that does not exist any more. */
const GIVEN: Scenario = {
  later: [],
  first: [{ kind: 'listener', led: [], askable: [ASKED] }],
  steps: [
    { step: { kind: 'had', proxy: 0, hosts: [], clusters: [ASKED] }, looking: [], busy: [] },
    { step: { kind: 'ask tcp', proxy: 0, names: [ASKED] }, looking: [], busy: [] },
  ],
};

test('property: what is made from what a proxy had is what it would get now', () => {
  fc.assert(
    fc.property(scenario, (given) => {
      const run = new Run(given);
      for (const each of given.steps) run.take(each);
    }),
    { numRuns: 400, examples: [[GIVEN]] },
  );
});
