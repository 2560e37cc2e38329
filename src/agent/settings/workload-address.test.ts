import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultAgentSettings } from '../../settings/index.ts';
import { workloadAddress } from './workload-address.ts';

const MACHINE = { hostName: 'vm-1.example.com', addresses: ['10.0.0.1', 'fd00::1'] };

test('settings have precedence, and are combined as specified', () => {
  const settings = defaultAgentSettings({ ip: '10.9.9.9', podName: 'web-0', podNamespace: 'shop' });
  assert.deepEqual(workloadAddress(settings, MACHINE), {
    ip: '10.9.9.9',
    addresses: ['10.9.9.9', '10.0.0.1', 'fd00::1'],
    followsMachine: true,
    workload: 'web-0',
    namespace: 'shop',
    id: 'web-0.shop',
    domain: 'shop.svc.cluster.local',
  });
});

test('the machine supplies what is not set', () => {
  const { ip, id, domain, addresses } = workloadAddress(defaultAgentSettings(), MACHINE);
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

test('machines that register themselves are named as their WorkloadEntries, whatever their host names are', () => {
  const registers = (network: string) => ({ MESH_META_AUTO_REGISTER_GROUP: 'web', MESH_META_NETWORK: network });
  const named = (ip: string, network: string) =>
    workloadAddress(defaultAgentSettings({ ip }), MACHINE, registers(network)).id;
  assert.equal(named('10.0.0.7', ''), 'web-10-0-0-7.default');
  assert.equal(named('10.0.0.8', 'dmz'), 'web-10-0-0-8-dmz.default');
  assert.equal(named('fd00::', ''), 'web-fd00.default');
  const own = workloadAddress(defaultAgentSettings({ podName: 'mine' }), MACHINE, registers(''));
  assert.equal(own.id, 'mine.default');
});

test('outside an orchestrator the id has the address, and the domain is that of the registry', () => {
  const names = (serviceregistry: string, more = {}) => {
    const { id, domain, namespace } = workloadAddress(defaultAgentSettings({ serviceregistry, ...more }), MACHINE);
    return { id, domain, namespace };
  };
  assert.deepEqual(names('ExtRegistry', { podNamespace: 'shop' }), {
    id: '10.0.0.1.service.consul',
    domain: 'service.consul',
    namespace: 'shop',
  });
  assert.deepEqual(names('Mock'), { id: '10.0.0.1', domain: 'default.svc.cluster.local', namespace: 'default' });
  assert.deepEqual(names('ExtRegistry', { id: 'a.b', domain: 'x.org' }), {
    id: 'a.b',
    domain: 'x.org',
    namespace: 'default',
  });
});

test('id and domain can be set as a whole, and a proxy on loopback has only that address', () => {
  const address = workloadAddress(defaultAgentSettings({ id: 'a.b', domain: 'x.org', ip: '127.0.0.5' }), MACHINE);
  assert.deepEqual(
    [address.id, address.workload, address.domain, address.addresses],
    ['a.b', 'a', 'x.org', ['127.0.0.5']],
  );
});

test('names that are not valid in a node id are refused', () => {
  const refused: readonly (readonly [Parameters<typeof defaultAgentSettings>[0], RegExp])[] = [
    [{ ip: 'here' }, /"here" of variable INSTANCE_IP/],
    [{ podName: 'a~b' }, /"a~b" of variable POD_NAME/],
    [{ podNamespace: 'a b' }, /"a b" of variable POD_NAMESPACE/],
  ];
  for (const [settings, message] of refused)
    assert.throws(() => workloadAddress(defaultAgentSettings(settings), MACHINE), message);
  assert.throws(
    () => workloadAddress(defaultAgentSettings(), { ...MACHINE, addresses: [] }),
    /set --ip or INSTANCE_IP/,
  );
});
