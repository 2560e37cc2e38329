import assert from 'node:assert/strict';
import { test } from 'node:test';
import { redirectionRules } from './rules.ts';
import { redirection } from './testing/redirections.ts';
import type { Family, Redirection } from './types.ts';

const rulesOf = (family: Family, wanted: Redirection, table: string, chain: string) =>
  redirectionRules(family, wanted)
    .find((each) => each.table === table)
    ?.chains.find(({ name }) => name === chain)?.rules;

const EVERYTHING = { meshInboundPorts: '*', meshServiceCidr: '*' };

test('everything is redirected, except SSH, the agent’s ports and the proxy’s own traffic', () => {
  assert.deepEqual(redirectionRules('ipv4', redirection({ ...EVERYTHING, meshLocalExcludePorts: '8022,15020' })), [
    {
      table: 'nat',
      chains: [
        { name: 'MESH_REDIRECT', rules: ['-p tcp -j REDIRECT --to-ports 15001'] },
        { name: 'MESH_IN_REDIRECT', rules: ['-p tcp -j REDIRECT --to-ports 15006'] },
        {
          name: 'MESH_INBOUND',
          rules: [
            '-p tcp --dport 15008 -j RETURN',
            '-p tcp --dport 22 -j RETURN',
            '-p tcp --dport 15020 -j RETURN',
            '-p tcp --dport 15021 -j RETURN',
            '-p tcp --dport 15090 -j RETURN',
            '-p tcp --dport 8022 -j RETURN',
            '-p tcp -j MESH_IN_REDIRECT',
          ],
        },
        {
          name: 'MESH_OUTPUT',
          rules: [
            '-s 127.0.0.6/32 -o lo -j RETURN',
            '! -d 127.0.0.1/32 -o lo -p tcp -m owner --uid-owner 1337 -j MESH_IN_REDIRECT',
            '! -d 127.0.0.1/32 -o lo -p tcp -m owner --gid-owner 1337 -j MESH_IN_REDIRECT',
            '-m owner --uid-owner 1337 -j RETURN',
            '-m owner --gid-owner 1337 -j RETURN',
            '-o lo -j RETURN',
            '-j MESH_REDIRECT',
          ],
        },
      ],
      jumps: ['PREROUTING -p tcp -j MESH_INBOUND', 'OUTPUT -p tcp -j MESH_OUTPUT'],
    },
  ]);
});

test('without inbound ports there is no inbound chain and no jump to one', () => {
  const [nat, ...others] = redirectionRules('ipv4', redirection({ meshServiceCidr: '*' }));
  assert.deepEqual(others, []);
  assert.deepEqual(nat?.jumps, ['OUTPUT -p tcp -j MESH_OUTPUT']);
  assert.ok(!nat?.chains.some(({ name }) => name === 'MESH_INBOUND'));
});

test('without destinations outbound traffic is not redirected', () => {
  const rules = rulesOf('ipv4', redirection({ meshInboundPorts: '*' }), 'nat', 'MESH_OUTPUT') ?? [];
  assert.ok(!rules.some((rule) => rule.endsWith('MESH_REDIRECT') && !rule.includes('MESH_IN_REDIRECT')));
});

test('listed inbound ports are redirected, and exclusions have no effect then', () => {
  const wanted = redirection({ meshInboundPorts: '80,22', meshLocalExcludePorts: '22' });
  assert.deepEqual(rulesOf('ipv4', wanted, 'nat', 'MESH_INBOUND'), [
    '-p tcp --dport 15008 -j RETURN',
    '-p tcp --dport 80 -j MESH_IN_REDIRECT',
    '-p tcp --dport 22 -j MESH_IN_REDIRECT',
  ]);
});

test('destinations are in the rules of their family, and exclusions apply when all are redirected', () => {
  const some = redirection({ meshServiceCidr: '10.0.0.0/8,fd00::/8', meshServiceExcludeCidr: '10.1.0.0/16' });
  const tail = (family: Family, wanted: Redirection) => rulesOf(family, wanted, 'nat', 'MESH_OUTPUT')?.slice(6);
  assert.deepEqual(tail('ipv4', some), ['-d 10.0.0.0/8 -j MESH_REDIRECT']);
  assert.deepEqual(tail('ipv6', some), ['-d fd00::/8 -j MESH_REDIRECT']);
  const all = redirection({ meshServiceCidr: '*', meshServiceExcludeCidr: '10.1.0.0/16,fd01::/16' });
  assert.deepEqual(tail('ipv4', all), ['-d 10.1.0.0/16 -j RETURN', '-j MESH_REDIRECT']);
  assert.deepEqual(tail('ipv6', all), ['-d fd01::/16 -j RETURN', '-j MESH_REDIRECT']);
});

test('outbound ports are excluded first, and included in addition to destinations', () => {
  const wanted = redirection({
    meshLocalOutboundPortsExclude: '3306',
    meshOutboundPorts: '8080',
    meshServiceCidr: '10.0.0.0/8',
  });
  assert.deepEqual(rulesOf('ipv4', wanted, 'nat', 'MESH_OUTPUT')?.slice(6), [
    '-p tcp --dport 3306 -j RETURN',
    '-p tcp --dport 8080 -j MESH_REDIRECT',
    '-d 10.0.0.0/8 -j MESH_REDIRECT',
  ]);
});

test('a listed loopback range is redirected in its own family, without localhost', () => {
  const wanted = redirection({
    meshServiceCidr: '127.1.0.0/16,127.0.0.1,10.0.0.0/8,::1',
    meshLocalOutboundPortsExclude: '3306',
  });
  assert.deepEqual(rulesOf('ipv4', wanted, 'nat', 'MESH_OUTPUT')?.slice(5, 9), [
    '-p tcp --dport 3306 -j RETURN',
    '-d 127.0.0.1/32 -j RETURN',
    '-d 127.1.0.0/16 -j MESH_REDIRECT',
    '-o lo -j RETURN',
  ]);
  assert.equal(rulesOf('ipv6', wanted, 'nat', 'MESH_OUTPUT')?.[5], '-o lo -j RETURN');
});

test('IPv6 has its own loopback and source address of connections to the application', () => {
  assert.deepEqual(rulesOf('ipv6', redirection(EVERYTHING), 'nat', 'MESH_OUTPUT')?.slice(0, 2), [
    '-s ::6/128 -o lo -j RETURN',
    '! -d ::1/128 -o lo -p tcp -m owner --uid-owner 1337 -j MESH_IN_REDIRECT',
  ]);
});

test('traffic from a virtual interface is treated as outbound', () => {
  const wanted = redirection({ ...EVERYTHING, meshServiceExcludeCidr: '10.1.0.0/16', orchVirtInterfaces: 'net1' });
  assert.deepEqual(rulesOf('ipv4', wanted, 'nat', 'MESH_INBOUND')?.slice(0, 3), [
    '-i net1 -d 10.1.0.0/16 -j RETURN',
    '-i net1 -j MESH_REDIRECT',
    '-i net1 -j RETURN',
  ]);
});

test('with several proxy users, traffic of each is the proxy’s', () => {
  const rules = rulesOf('ipv4', redirection({ ...EVERYTHING, proxyUid: '1,2', proxyGid: '3' }), 'nat', 'MESH_OUTPUT');
  const lo = rules?.indexOf('-o lo -j RETURN') ?? -1;
  for (const owner of ['--uid-owner 1', '--uid-owner 2', '--gid-owner 3']) {
    const at = rules?.findIndex((rule) => rule.includes(owner) && rule.endsWith('MESH_IN_REDIRECT')) ?? -1;
    assert.ok(at >= 0 && at < lo, owner);
  }
});

test('TPROXY redirects inbound connections in mangle, without changing their destination', () => {
  const wanted = redirection({ ...EVERYTHING, meshInboundInterceptionMode: 'TPROXY' });
  const [nat, mangle] = redirectionRules('ipv4', wanted);
  assert.deepEqual(nat?.jumps, ['OUTPUT -p tcp -j MESH_OUTPUT']);
  assert.deepEqual(mangle, {
    table: 'mangle',
    chains: [
      { name: 'MESH_DIVERT', rules: ['-j MARK --set-mark 1337', '-j ACCEPT'] },
      {
        name: 'MESH_TPROXY',
        rules: ['! -d 127.0.0.1/32 -p tcp -j TPROXY --tproxy-mark 1337/0xffffffff --on-port 15006'],
      },
      {
        name: 'MESH_INBOUND',
        rules: [
          '-m mark --mark 1337 -j CONNMARK --save-mark',
          '-m mark --mark 1337 -j RETURN',
          '-s 127.0.0.6/32 -i lo -j RETURN',
          '-i lo -j RETURN',
          '-p tcp --dport 15008 -j RETURN',
          '-p tcp --dport 22 -j RETURN',
          '-p tcp --dport 15020 -j RETURN',
          '-p tcp --dport 15021 -j RETURN',
          '-p tcp --dport 15090 -j RETURN',
          '-p tcp -m conntrack --ctstate RELATED,ESTABLISHED -j MESH_DIVERT',
          '-p tcp -j MESH_TPROXY',
        ],
      },
      { name: 'MESH_OUTPUT', rules: ['-m connmark --mark 1337 -j CONNMARK --restore-mark'] },
    ],
    jumps: ['PREROUTING -p tcp -j MESH_INBOUND', 'OUTPUT -p tcp -j MESH_OUTPUT'],
  });
});
