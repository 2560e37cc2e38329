import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ProxyNode } from '../core/proxy.ts';
import type { ConnectionStatus, TypeStatus } from '../push/index.ts';
import { inline, Mesh, sidecar } from '../push/testing/mesh.ts';
import { countsOf, proxyPage } from './overview.ts';
import { ProxyTable } from './proxy-table.ts';
import { IDLE as NOT_SUBSCRIBED } from './testing/statuses.ts';
import type { DebugSource, Recent } from './types.ts';
import { Viewed, type Viewer } from './viewed.ts';

const IDLE: TypeStatus = { ...NOT_SUBSCRIBED, subscribed: 'wildcard' };
const SYNCED = { ...IDLE, nonceSent: '1', nonceAcked: '1' };
const STALE = { ...IDLE, nonceSent: '2', nonceAcked: '1' };
const REJECTED = {
  ...SYNCED,
  nonceSent: '2',
  lastNack: { message: `no such ${'x'.repeat(3000)}`, atMs: 5, resources: ['80', '81'] },
  quarantined: new Map([['80', 'v']]),
};

function proxy(name: string, namespace: string, cds: TypeStatus, lds = SYNCED): ConnectionStatus {
  const node: ProxyNode = { ...sidecar('10.0.0.1', namespace), workload: `${name}.${namespace}` };
  const types = new Map([['cds', cds] as const, ['lds', lds] as const]);
  return { connectionId: name, node, peer: '', mode: 'delta', connectedAtMs: 1, types };
}

/** A table of these proxies, and the number of times that it was built. */
function table(proxies: readonly ConnectionStatus[]) {
  const state = { now: 0, built: 0, drop: () => {} };
  const statuses = () => {
    state.built++;
    return proxies;
  };
  const later = (_ms: number, run: () => void) => {
    state.drop = run;
    return { cancel: () => {} };
  };
  return {
    state,
    table: new ProxyTable({
      configurationOf: () => ({ configuration: 'all' }),
      statuses,
      now: () => state.now,
      later,
    }),
  };
}

function run<T>(steps: Generator<void, T>): { value: T; steps: number } {
  for (let count = 0; ; count++) {
    const step = steps.next();
    if (step.done === true) return { value: step.value, steps: count };
  }
}

const mesh = new Mesh(inline, []);

function viewed(proxies: readonly ConnectionStatus[], viewer: Viewer = 'all'): Viewed {
  const recent: Partial<Recent> = { proxies: table(proxies).table };
  const source: Partial<DebugSource> = { snapshot: () => mesh.snapshot, recent: recent as Recent };
  return new Viewed(source as DebugSource, viewer);
}

const PROXIES = [
  proxy('b', 'shop', STALE),
  proxy('a', 'shop', SYNCED),
  proxy('c', 'shop', SYNCED, REJECTED),
  proxy('d', 'other', IDLE, IDLE),
];

function page(query: string, viewer: Viewer = 'all') {
  return run(proxyPage(viewed(PROXIES, viewer), new URLSearchParams(query))).value;
}

test('proxies are listed by name with the worst state of their types', () => {
  const { counts, proxies, matching } = page('');
  assert.deepEqual(counts, { total: 4, REJECTED: 1, STALE: 1, 'NOT SENT': 1, SYNCED: 1 });
  assert.deepEqual(
    proxies.map(({ proxy: name, state }) => [name, state]),
    [
      ['a.shop', 'SYNCED'],
      ['b.shop', 'STALE'],
      ['c.shop', 'REJECTED'],
      ['d.other', 'NOT SENT'],
    ],
  );
  assert.equal(matching, 4);
  assert.deepEqual(proxies[1]?.types, {
    cluster: 'STALE',
    endpoint: 'NOT SENT',
    listener: 'SYNCED',
    route: 'NOT SENT',
  });
});

test('a rejection is shown in the words of the proxy, up to 2,000 characters', () => {
  const [row] = page('state=REJECTED').proxies;
  assert.deepEqual(
    [row?.rejection?.type, row?.rejection?.resources, row?.rejection?.at],
    ['listener', ['80', '81'], 5],
  );
  assert.equal(row?.rejection?.message.length, 2000);
});

test('a search looks into names and rejections; a page has a next one', () => {
  assert.deepEqual(
    page('search=NO+SUCH').proxies.map(({ proxy: name }) => name),
    ['c.shop'],
  );
  const first = page('search=shop&limit=2');
  assert.deepEqual([first.matching, first.proxies.length, first.next], [3, 2, 2]);
  const second = page('search=shop&limit=2&start=2');
  assert.deepEqual([second.proxies.length, second.next], [1, undefined]);
});

test('a viewer of one namespace sees and counts its proxies only', () => {
  const { counts, proxies } = page('', { namespace: 'other' });
  assert.deepEqual([counts.total, proxies.map(({ proxy: name }) => name)], [1, ['d.other']]);
});

test('wrong parameters are refused', () => {
  for (const query of ['state=BROKEN', 'limit=-1', 'start=x']) {
    assert.throws(() => page(query), { code: 'invalid_argument' }, query);
  }
});

test('the table is built in slices, once for all who read it within a second', () => {
  const { state, table: proxies } = table(Array.from({ length: 100 }, (_, index) => proxy(`p${index}`, 'a', SYNCED)));
  const built = run(proxies.rows());
  assert.deepEqual([built.value.length, built.steps], [100, 5]);
  assert.equal(run(proxies.rows()).steps, 0);
  state.now = 2000;
  run(proxies.rows());
  assert.equal(state.built, 2);
});

test('a table that nobody reads is dropped', () => {
  const { state, table: proxies } = table(PROXIES);
  run(proxies.rows());
  state.drop();
  run(proxies.rows());
  assert.equal(state.built, 2);
});

test('counts of no proxies are zero', () => {
  assert.equal(countsOf([]).total, 0);
});
