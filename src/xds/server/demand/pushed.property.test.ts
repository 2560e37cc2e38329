/**
 * What proxies on demand were pushed, on streams of a server without sockets. Here nothing is read from a session: a
 * change whose proxies were not found is missing.
 */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import * as fc from '../../../core/testing/properties.ts';
import { byXdsType } from '../../../core/xds-types.ts';
import type { Snapshot } from '../../../model/index.ts';
import { scopeOfKey } from '../../../push/index.ts';
import { endpoints, inline, Mesh, meshResource, service, turns } from '../../../push/testing/mesh.ts';
import type { LaterOptions } from '../../../push/views/index.ts';
import { type AnyResource, keyOf } from '../../../resources/kinds/types.ts';
import { defaultMeshConfig } from '../../../resources/mesh-config.ts';
import { concernedNames, leadsTo } from '../../on-demand/index.ts';
import { FILTERS, type Filter, PATCHES } from '../../testing/filter-patches.ts';
import { type Resources, SimulatedProxy, SimulatedServer } from '../../testing/simulated-proxy.ts';

const NAMESPACE = 'shop';
const DNS = `${NAMESPACE}.svc.cluster.local`;
const COUNT = 8;
const HOSTS = Array.from({ length: COUNT }, (_, index) => `s${index}`);
const TCP = ['t0', 't1'];
const TCP_PORT = 9000;
const PROXIES = 3;
/** A virtual host for hosts that have none of their own. */
const WILDCARD = '*.example';
/** A host that has one of its own, or that one. */
const OUTSIDE = 'a.example';
/** Hosts that have that one, or none. */
const OTHERS = ['b.example', 'unknown'];

const clusterOf = (name: string): string => `outbound|${TCP_PORT}||${name}.${DNS}`;
/** Two services have the same one: one of these has a virtual host for it. */
const addressOf = (name: string): string => `10.9.1.${[...HOSTS, ...TCP, 'new'].indexOf(name === 's7' ? 's3' : name)}`;
const SHARED = addressOf('s3');
const httpService = (name: string) => service(NAMESPACE, name, { clusterIP: addressOf(name) });

const RESOURCES = [
  ...HOSTS.flatMap((name) => [httpService(name), endpoints(NAMESPACE, name, '10.2.0.1')]),
  ...TCP.map((name) => {
    const ports = [{ name: 'tcp', port: TCP_PORT, targetPort: 8080 }];
    return service(NAMESPACE, name, { clusterIP: addressOf(name), ports });
  }),
];

const proxy = fc.nat({ max: PROXIES - 1 });
/** One that does not exist at first among them. */
const host = fc.constantFrom(...HOSTS, 'new');
const exists = fc.boolean();
const step = fc.oneof(
  fc.record({ kind: fc.constant('ask' as const), proxy, host, isShort: fc.boolean() }),
  fc.record({
    kind: fc.constant('ask' as const),
    proxy,
    host: fc.constantFrom(OUTSIDE, ...OTHERS, SHARED),
    isShort: fc.constant(true),
  }),
  fc.record({ kind: fc.constant('ask tcp' as const), proxy, host: fc.constantFrom(...TCP) }),
  fc.record({ kind: fc.constant('learn' as const), host, isTold: fc.boolean() }),
  fc.record({ kind: fc.constant('learn tcp' as const), host: fc.constantFrom(...TCP) }),
  fc.record({ kind: fc.constant('turns' as const), count: fc.integer({ min: 1, max: 12 }) }),
  fc.record({ kind: fc.constant('tell' as const) }),
  fc.record({ kind: fc.constant('endpoints' as const), host: fc.constantFrom(...HOSTS, ...TCP), at: fc.nat(3) }),
  fc.record({ kind: fc.constant('service' as const), host, exists }),
  fc.record({ kind: fc.constant('rule' as const), host: fc.constantFrom(...HOSTS, ...TCP), most: fc.nat(2) }),
  fc.record({ kind: fc.constant('TLS' as const), host: fc.constantFrom(...HOSTS), exists }),
  fc.record({
    kind: fc.constant('route' as const),
    host: fc.oneof(host, fc.constantFrom(WILDCARD, OUTSIDE)),
    to: host,
    exists,
  }),
  fc.record({ kind: fc.constant('settings' as const), seconds: fc.integer({ min: 1, max: 2 }) }),
  fc.record({ kind: fc.constant('filter' as const), filter: fc.constantFrom(...FILTERS), isForOne: fc.boolean() }),
  fc.record({ kind: fc.constant('reconnect' as const), proxy }),
  fc.record({ kind: fc.constant('replace' as const), proxy }),
  fc.record({ kind: fc.constant('restart' as const) }),
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** Whether a step may take something away from a proxy. */
const changesMesh = ({ kind }: Step): boolean =>
  ['service', 'rule', 'TLS', 'route', 'settings', 'filter'].includes(kind);

/** Whether a step leads proxies to what does not exist, or not any more. */
const leadsNowhere = (each: Step): boolean => each.kind === 'service' || (each.kind === 'route' && each.to === 'new');

interface Edit {
  readonly made?: AnyResource;
  /** Key of the resource to delete. */
  readonly gone?: string;
}

function editOf(each: Step): Edit {
  if (each.kind === 'endpoints') return { made: endpoints(NAMESPACE, each.host, `10.3.0.${each.at}`) };
  if (each.kind === 'service')
    return each.exists ? { made: httpService(each.host) } : { gone: `Service/${NAMESPACE}/${each.host}` };
  if (each.kind === 'rule') {
    if (each.most === 0) return { gone: `DestinationRule/${NAMESPACE}/${each.host}` };
    const trafficPolicy = { connectionPool: { tcp: { maxConnections: each.most } } };
    return { made: meshResource('DestinationRule', NAMESPACE, each.host, { host: each.host, trafficPolicy }) };
  }
  if (each.kind === 'TLS') {
    if (!each.exists) return { gone: `DestinationRule/${NAMESPACE}/${each.host}` };
    const trafficPolicy = { tls: { mode: 'SIMPLE', credentialName: 'authorities' } };
    return { made: meshResource('DestinationRule', NAMESPACE, each.host, { host: each.host, trafficPolicy }) };
  }
  if (each.kind === 'filter') {
    const patch = PATCHES[each.filter];
    if (patch === undefined) return { gone: `EnvoyFilter/${NAMESPACE}/filter` };
    const spec = { configPatches: [patch], ...(each.isForOne && { workloadSelector: { labels: { index: '2' } } }) };
    return { made: meshResource('EnvoyFilter', NAMESPACE, 'filter', spec) };
  }
  if (each.kind !== 'route') return {};
  if (each.host === WILDCARD && !each.exists) return { gone: `VirtualService/${NAMESPACE}/any` };
  if (!each.exists) return { gone: `VirtualService/${NAMESPACE}/${each.host}` };
  const http = [{ route: [{ destination: { host: each.to } }] }];
  const name = each.host === WILDCARD ? 'any' : each.host;
  return { made: meshResource('VirtualService', NAMESPACE, name, { hosts: [each.host], http }) };
}

const setup = fc.record({
  mode: fc.constantFrom('on-demand' as const, 'learned' as const),
  /** With more units, clusters are generated when proxies need them. */
  above: fc.constantFrom(0, 1),
  canaryAbove: fc.constantFrom(0, Number.POSITIVE_INFINITY),
  /** Turns of the event loop before each job, in which proxies do something. */
  delay: fc.constantFrom<number>(0, 4, 10),
});
type Setup = typeof setup extends fc.Arbitrary<infer T> ? T : never;

const hasSorted = ({ has }: SimulatedProxy) => byXdsType((type) => sorted(has, type));
const sorted = (has: Resources, type: keyof Resources) =>
  [...has[type]].map(([name, version]) => `${name} ${version}`).sort();

/** Each job begins after so many turns of the event loop. */
const delayed = (count: number) => (snapshot: Snapshot) => {
  const generator = inline(snapshot);
  const submit = generator.submit.bind(generator);
  generator.submit = (...job) => turns(count).then(() => submit(...job));
  return generator;
};

/** Sets a field of the mesh configuration, from which all clusters are generated. */
function configure({ model, engine }: Mesh, seconds: number): void {
  const mesh = { ...defaultMeshConfig(), connectTimeout: seconds * 1000 };
  engine.publish(model.apply({ changes: [], eventTime: performance.now(), mesh }));
}

/** A mesh whose clusters are generated when proxies need them, and its proxies. */
class Run {
  readonly setup: Setup;
  server: SimulatedServer;
  readonly proxies: SimulatedProxy[];
  readonly #later: LaterOptions;
  /** Virtual hosts and clusters that other replicas, or proxies that left, have asked for. */
  readonly #learned = new Set<string>();
  readonly #resources = new Map(RESOURCES.map((each) => [keyOf(each), each]));
  /** Of the mesh configuration, seconds. */
  #connectTimeout = 10;

  constructor(made: Setup) {
    this.#later = { above: made.above };
    this.setup = made;
    this.server = this.#newServer(this.#later, made.canaryAbove, made.delay);
    this.proxies = Array.from({ length: PROXIES }, (_, index) => this.#start(this.server, index));
  }

  #newServer(laterClusters: LaterOptions, canaryAbove: number, delay: number) {
    const options = { concerned: concernedNames, leadsTo, laterClusters, canaryAbove };
    const mesh = new Mesh(delayed(delay), [...this.#resources.values()], options);
    configure(mesh, this.#connectTimeout);
    return new SimulatedServer(mesh, (ms) => mock.timers.tick(ms));
  }

  #start(server: SimulatedServer, index: number, before?: SimulatedProxy): SimulatedProxy {
    return new SimulatedProxy(server, { index, configuration: this.setup.mode }, before);
  }

  /** Does nothing before the first proxy has connected. */
  #learn(server: SimulatedServer, names: readonly string[]): readonly string[] {
    const view = [...server.mesh.engine.views()].find(({ view: { part } }) => part === 'outbound');
    if (view === undefined || this.setup.mode !== 'learned') return [];
    const hosts = Array.from(names, (name) => ({ name, unusedMs: 0 }));
    server.demand.learned.add([{ scope: scopeOfKey(view.key), hosts }]);
    return names;
  }

  async take(each: Step): Promise<void> {
    this.#edit(editOf(each));
    if (each.kind === 'turns') await turns(each.count);
    if (each.kind === 'tell') this.server.clock.pass(1000);
    if (each.kind === 'ask') this.proxies[each.proxy]?.ask('vhds', `80/${each.host}${each.isShort ? '' : `.${DNS}`}`);
    if (each.kind === 'ask tcp') this.proxies[each.proxy]?.ask('cds', clusterOf(each.host));
    if (each.kind === 'learn') {
      for (const name of this.#learn(this.server, [`80/${each.host}.${DNS}:80`])) this.#learned.add(name);
      if (each.isTold) this.server.clock.pass(1000);
    }
    if (each.kind === 'learn tcp')
      for (const name of this.#learn(this.server, [clusterOf(each.host)])) this.#learned.add(name);
    if (each.kind === 'reconnect' || each.kind === 'replace') this.#leave(each);
    if (each.kind === 'restart') await this.#restart();
    if (each.kind === 'settings') {
      this.#connectTimeout = each.seconds;
      configure(this.server.mesh, each.seconds);
    }
  }

  #edit({ made, gone }: Edit): void {
    if (made !== undefined) {
      this.#resources.set(keyOf(made), made);
      this.server.mesh.change([made]);
    }
    if (gone !== undefined && this.#resources.delete(gone)) this.server.mesh.change([], [gone]);
  }

  #leave({ kind, proxy: index }: { readonly kind: 'reconnect' | 'replace'; readonly proxy: number }): void {
    const left = this.proxies[index];
    for (const name of left?.used ?? []) this.#learned.add(name);
    left?.disconnect();
    if (kind === 'replace') this.proxies[index] = this.#start(this.server, index);
    else left?.connect();
  }

  /** Proxies connect to a server that has nothing generated, and knows what it has learned from them alone. */
  async #restart(): Promise<void> {
    for (const each of this.proxies) each.disconnect();
    this.#learned.clear();
    this.server = this.#newServer(this.#later, this.setup.canaryAbove, this.setup.delay);
    for (const each of this.proxies) each.connect(this.server);
    await turns(2);
  }

  /** The same proxies, as they begin in the same mesh, whose clusters are all generated at once. */
  async fresh(): Promise<readonly SimulatedProxy[]> {
    const server = this.#newServer({ above: 1000 }, Number.POSITIVE_INFINITY, 0);
    const proxies = this.proxies.map((each, index) => this.#start(server, index, each));
    await turns(5);
    this.#learn(server, [...this.#learned]);
    await server.settled();
    assert.deepEqual(server.errors, []);
    for (const each of proxies) each.disconnect();
    return proxies;
  }
}

/** Proxies that have asked for some hosts connect to another server, and the first ones ask at once. */
const restarted = (mode: Setup['mode'], delay: number): [Setup, Step[]] => [
  { mode, above: 0, canaryAbove: 0, delay },
  [
    { kind: 'turns', count: 12 },
    ...[6, 7].map((index): Step => ({ kind: 'ask', proxy: index - 6, host: `s${index}`, isShort: false })),
    { kind: 'ask tcp', proxy: 1, host: 't1' },
    ...Array.from({ length: 12 }, (): Step => ({ kind: 'turns', count: 12 })),
    { kind: 'restart' },
    { kind: 'ask', proxy: 0, host: 's3', isShort: false },
  ],
];

/** Proxies have begun, and learn of a host whose clusters are still to be generated. */
const learnedEarly = (delay: number, count: number): [Setup, Step[]] => [
  { mode: 'learned', above: 0, canaryAbove: Number.POSITIVE_INFINITY, delay },
  [
    { kind: 'turns', count },
    { kind: 'learn', host: 's7', isTold: true },
  ],
];

/** A proxy has a virtual host, or waits for one, and a change leads it to a host that nobody has asked for. */
const led = (host: string, ...changes: readonly Step[]): [Setup, Step[]] => [
  { mode: 'on-demand', above: 0, canaryAbove: Number.POSITIVE_INFINITY, delay: 10 },
  [
    ...changes.slice(0, -1),
    ...Array.from({ length: 4 }, (): Step => ({ kind: 'turns', count: 12 })),
    { kind: 'ask', proxy: 0, host, isShort: host === OUTSIDE },
    ...Array.from({ length: 4 }, (): Step => ({ kind: 'turns', count: 12 })),
    ...changes.slice(-1),
  ],
];

const LED = [
  led('s0', { kind: 'route', host: 's0', to: 's7', exists: true }),
  led('new', { kind: 'route', host: 'new', to: 's7', exists: true }),
  led(
    OUTSIDE,
    { kind: 'route', host: WILDCARD, to: 's7', exists: true },
    { kind: 'route', host: OUTSIDE, to: 's1', exists: true },
    { kind: 'route', host: OUTSIDE, to: 's1', exists: false },
  ),
];

const FOUND: [Setup, Step[]][] = [
  [
    // A proxy asks while it moves to another view, and all leave that again.
    { mode: 'on-demand', above: 0, canaryAbove: 0, delay: 0 },
    [
      { kind: 'filter', filter: 'other header', isForOne: true },
      { kind: 'turns', count: 5 },
      { kind: 'ask', proxy: 1, host: 's0', isShort: false },
      { kind: 'filter', filter: 'none', isForOne: false },
    ],
  ],
  [
    { mode: 'on-demand', above: 0, canaryAbove: 0, delay: 0 },
    [
      { kind: 'route', host: 's0', to: 's0', exists: true },
      { kind: 'ask', proxy: 0, host: 's0', isShort: false },
      { kind: 'settings', seconds: 1 },
      { kind: 'rule', host: 's0', most: 0 },
    ],
  ],
  [
    // Others learn of a virtual host that is generated already, by another name than the one that was asked for.
    { mode: 'learned', above: 0, canaryAbove: 0, delay: 4 },
    [
      { kind: 'ask', proxy: 1, host: 's0', isShort: false },
      { kind: 'replace', proxy: 0 },
      { kind: 'learn tcp', host: 't1' },
      { kind: 'endpoints', host: 's7', at: 1 },
      { kind: 'learn', host: 's0', isTold: true },
      { kind: 'restart' },
    ],
  ],
];

/** A proxy waits for a cluster of a view that it leaves, and that nobody else has. */
const moved = (count: number): [Setup, Step[]] => [
  { mode: 'on-demand', above: 0, canaryAbove: 0, delay: 0 },
  [
    { kind: 'turns', count },
    { kind: 'filter', filter: 'timeout', isForOne: false },
    { kind: 'ask tcp', proxy: 0, host: 't0' },
  ],
];

/** A proxy comes back to a view that others have, and in which nobody has what it has asked for any more. */
const cameBack = (mode: Setup['mode'], filter: Filter, delay: number): [Setup, Step[]] => {
  const rest = Array.from({ length: 4 }, (): Step => ({ kind: 'turns', count: 12 }));
  return [
    { mode, above: 0, canaryAbove: 0, delay },
    [
      ...rest,
      { kind: 'ask', proxy: 2, host: 's1', isShort: true },
      ...rest,
      { kind: 'filter', filter, isForOne: true },
      ...rest,
      { kind: 'ask', proxy: 1, host: 's3', isShort: false },
      ...rest,
      { kind: 'filter', filter: 'none', isForOne: true },
    ],
  ];
};

const CAME_BACK = FILTERS.flatMap((filter) => [cameBack('on-demand', filter, 0), cameBack('learned', filter, 4)]);

const MOVED = Array.from({ length: 5 }, (_, count) => moved(count));

const RESTARTS = [restarted('on-demand', 0), restarted('on-demand', 4), restarted('learned', 4)];

test('property: whatever happens while clusters are generated, proxies are pushed what fresh ones get', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  await fc.assert(
    fc.asyncProperty(setup, fc.array(step, { minLength: 1, maxLength: 12 }), async (made, steps) => {
      const run = new Run(made);
      await turns(2);
      for (const each of steps) await run.take(each);
      await run.server.settled();
      assert.deepEqual(run.server.errors, []);
      assert.ok(run.server.mesh.allSettled());
      const fresh = await run.fresh();
      assert.deepEqual(run.proxies.map(hasSorted), fresh.map(hasSorted));
      if (!steps.some(leadsNowhere)) for (const { lacking } of run.proxies) assert.deepEqual([...lacking], []);
      if (!steps.some(changesMesh)) for (const { lost } of run.proxies) assert.deepEqual(lost, []);
      for (const each of run.proxies) each.disconnect();
    }),
    {
      numRuns: 40,
      examples: [learnedEarly(4, 8), learnedEarly(10, 16), ...RESTARTS, ...LED, ...FOUND, ...MOVED, ...CAME_BACK],
    },
  );
});
