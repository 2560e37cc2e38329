/** The condition Programmed of a Gateway and its listeners, by what proxies have acknowledged. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { served } from '../testing/gateway-proxies.ts';
import type { DesiredStatus, StatusFields } from '../types.ts';
import { withAcknowledged } from './listener-conditions.ts';
import type { ProxyListeners } from './report.ts';

const programmed = (generation: number, status = 'True') => ({
  type: 'Programmed',
  status,
  reason: 'Programmed',
  message: '',
  observedGeneration: generation,
});

const listener = (name: string, generation: number, status = 'True') => ({
  name,
  conditions: [{ ...programmed(generation), type: 'Accepted' }, programmed(generation, status)],
});

/** What is desired of Gateway `web` with listeners l80 and l81. */
const desired = (generation = 2): DesiredStatus => ({
  kind: 'KubernetesGateway',
  namespace: 'edge',
  name: 'web',
  status: {
    conditions: [{ ...programmed(generation), type: 'Accepted' }, programmed(generation)],
    listeners: [listener('l80', generation), listener('l81', generation)],
  },
});

const proxy = (acknowledged: readonly number[], rejected: readonly number[] = []): ProxyListeners => ({
  acknowledged: new Set(acknowledged.map((port) => `digest-${port}`)),
  rejected: new Map(rejected.map((port) => [`digest-${port}`, 'cannot bind'])),
});

/** Reasons of the Gateway and its listeners; in the API server it has `before`. */
function reasons(proxies: readonly ProxyListeners[], before: StatusFields = {}) {
  const { status } = withAcknowledged(desired(), { listeners: [served(80), served(81)], proxies, current: before });
  const { conditions, listeners } = status as {
    conditions: StatusFields[];
    listeners: { conditions: StatusFields[] }[];
  };
  return [conditions, ...listeners.map((each) => each.conditions)].map(
    (each) => each.find(({ type }) => type === 'Programmed')?.reason,
  );
}

const CASES: readonly [string, readonly ProxyListeners[], StatusFields, readonly string[]][] = [
  ['no proxy', [], {}, ['Pending', 'Pending', 'Pending']],
  ['one listener', [proxy([80])], {}, ['Pending', 'Programmed', 'Pending']],
  ['all listeners', [proxy([80, 81])], {}, ['Programmed', 'Programmed', 'Programmed']],
  ['each by another proxy', [proxy([80]), proxy([81])], {}, ['Programmed', 'Programmed', 'Programmed']],
  ['one is rejected', [proxy([80], [81])], {}, ['Invalid', 'Programmed', 'Invalid']],
  [
    'rejected by one proxy of two',
    [proxy([80], [81]), proxy([80, 81])],
    {},
    ['Programmed', 'Programmed', 'Programmed'],
  ],
  ['one rejected, one awaited', [proxy([], [81])], {}, ['Invalid', 'Pending', 'Invalid']],
  [
    'known to the API server for this generation',
    [],
    { listeners: [listener('l80', 2), listener('l81', 2)] },
    ['Programmed', 'Programmed', 'Programmed'],
  ],
  [
    'known to the API server for the generation before',
    [],
    { listeners: [listener('l80', 1), listener('l81', 2, 'False')] },
    ['Pending', 'Pending', 'Pending'],
  ],
  [
    'rejected since',
    [proxy([80], [81])],
    { listeners: [listener('l80', 2), listener('l81', 2)] },
    ['Invalid', 'Programmed', 'Invalid'],
  ],
];

for (const [what, proxies, before, expected] of CASES)
  test(`the Gateway and its listeners, acknowledged by ready proxies: ${what}`, () => {
    assert.deepEqual(reasons(proxies, before), expected);
  });

test('listeners that are not programmed for other reasons are not changed', () => {
  const unresolved: DesiredStatus = {
    ...desired(),
    status: { conditions: [programmed(2, 'False')], listeners: [listener('l80', 2, 'False')] },
  };
  assert.equal(withAcknowledged(unresolved, { listeners: [], proxies: [], current: {} }), unresolved);
});

test('the message names a few of many listeners', () => {
  const ports = Array.from({ length: 64 }, (_, index) => 8000 + index);
  const many: DesiredStatus = {
    ...desired(),
    status: { conditions: [programmed(2)], listeners: ports.map((port) => listener(`l${port}`, 2)) },
  };
  const listeners = ports.map((port) => served(port));
  const { status } = withAcknowledged(many, { listeners, proxies: [], current: {} });
  const [{ message } = { message: '' }] = (status as { conditions: { message: string }[] }).conditions;
  const names = 'l8000, l8001, l8002, l8003, l8004 and 59 more';
  assert.equal(message, `no ready proxy has acknowledged listeners ${names} yet`);
});
