import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultAgentSettings } from '../../settings/index.ts';
import { placeOf } from './place.ts';

const MACHINE = { hostName: 'vm-1.example.com', addresses: ['10.0.0.1', 'fd00::1'] };

test('what is said counts, and is put together as the specification says', () => {
  const settings = defaultAgentSettings({ ip: '10.9.9.9', podName: 'web-0', podNamespace: 'shop' });
  assert.deepEqual(placeOf(settings, MACHINE), {
    ip: '10.9.9.9',
    addresses: ['10.9.9.9', '10.0.0.1', 'fd00::1'],
    followsMachine: true,
    workload: 'web-0',
    namespace: 'shop',
    id: 'web-0.shop',
    domain: 'shop.svc.cluster.local',
  });
});

test('what is not said is asked of the machine', () => {
  const { ip, id, domain, addresses } = placeOf(defaultAgentSettings(), MACHINE);
  assert.deepEqual(
    { ip, id, domain, addresses },
    {
      ip: '10.0.0.1',
      id: 'vm-1.default',
      domain: 'default.svc.cluster.local',
      addresses: ['10.0.0.1', 'fd00::1'],
    },
  );
});

test('the id and the domain can be given whole; a proxy on loopback has only that address', () => {
  const place = placeOf(defaultAgentSettings({ id: 'a.b', domain: 'x.org', ip: '127.0.0.5' }), MACHINE);
  assert.deepEqual([place.id, place.workload, place.domain, place.addresses], ['a.b', 'a', 'x.org', ['127.0.0.5']]);
});

test('what cannot stand in a node id is refused', () => {
  const refused: readonly (readonly [Parameters<typeof defaultAgentSettings>[0], RegExp])[] = [
    [{ ip: 'here' }, /"here" of variable INSTANCE_IP/],
    [{ podName: 'a~b' }, /"a~b" of variable POD_NAME/],
    [{ podNamespace: 'a b' }, /"a b" of variable POD_NAMESPACE/],
  ];
  for (const [settings, message] of refused)
    assert.throws(() => placeOf(defaultAgentSettings(settings), MACHINE), message);
  assert.throws(() => placeOf(defaultAgentSettings(), { ...MACHINE, addresses: [] }), /give --ip or INSTANCE_IP/);
});
