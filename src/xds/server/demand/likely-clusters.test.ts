import assert from 'node:assert/strict';
import { test } from 'node:test';
import { likelyClusters } from './likely-clusters.ts';

const likely = (names: readonly string[], dnsDomain: string) => [...likelyClusters(names, dnsDomain)];

test('a name is of a service of that name, in the namespace of the proxy or in one that the name tells', () => {
  assert.deepEqual(likely(['80/web', '8080/web.shop'], 'front.svc.cluster.local').slice(0, 6), [
    'outbound|80||web',
    'outbound|80||web.front.svc.cluster.local',
    'outbound|80||web.svc.cluster.local',
    'outbound|80||web.cluster.local',
    'outbound|80||web.local',
    'outbound|8080||web.shop',
  ]);
});

test('names and domains that no service has are not tried', () => {
  const long = 'x'.repeat(254);
  assert.deepEqual(likely(['', '80', '80/', `80/${long}`, `${long}/${long}`, `80/${long.repeat(100)}`], 'a.b'), []);
  assert.deepEqual(likely(['80/web'], 'a.'.repeat(1000)), ['outbound|80||web']);
  assert.equal(likely(['80/web', '80/db'], 'a.'.repeat(100)).length, 2 * 9);
});
