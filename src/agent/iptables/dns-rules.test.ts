import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseNameservers } from './dns-options.ts';
import { ineffectiveSettings, type RedirectionSettings } from './options.ts';
import { redirectionRules } from './rules.ts';
import { DEFAULT_SETTINGS, redirection } from './testing/redirections.ts';
import type { Family, Redirection, TableRules } from './types.ts';

const SERVERS = ['10.96.0.10', 'fd00::a'];
const AGENT = { dnsAgent: 'true' };

const tableOf = (family: Family, wanted: Redirection, table: string): TableRules | undefined =>
  redirectionRules(family, wanted).find((each) => each.table === table);
const rulesOf = (family: Family, wanted: Redirection, table: string, chain: string) =>
  tableOf(family, wanted, table)?.chains.find(({ name }) => name === chain)?.rules;

test('queries to the name servers of each family are redirected to the agent, except those of the proxy', () => {
  const wanted = redirection(AGENT, SERVERS);
  assert.deepEqual(rulesOf('ipv4', wanted, 'nat', 'MESH_DNS'), [
    '-m owner --uid-owner 1337 -j RETURN',
    '-m owner --gid-owner 1337 -j RETURN',
    '-d 10.96.0.10/32 -p udp -j REDIRECT --to-ports 15053',
    '-d 10.96.0.10/32 -p tcp -j REDIRECT --to-ports 15053',
  ]);
  assert.deepEqual(rulesOf('ipv6', wanted, 'nat', 'MESH_DNS')?.slice(2), [
    '-d fd00::a/128 -p udp -j REDIRECT --to-ports 15053',
    '-d fd00::a/128 -p tcp -j REDIRECT --to-ports 15053',
  ]);
  assert.deepEqual(tableOf('ipv4', wanted, 'nat')?.jumps, [
    'OUTPUT -p tcp -j MESH_OUTPUT',
    'OUTPUT -p udp -m udp --dport 53 -j MESH_DNS',
    'OUTPUT -p tcp -m tcp --dport 53 -j MESH_DNS',
  ]);
});

test('captured queries over UDP and their answers are in a conntrack zone of their own', () => {
  assert.deepEqual(tableOf('ipv4', redirection({ ...AGENT, dnsAddress: '127.0.0.1:5300' }, SERVERS), 'raw'), {
    table: 'raw',
    chains: [
      {
        name: 'MESH_DNS',
        rules: [
          '-m owner --uid-owner 1337 -j RETURN',
          '-m owner --gid-owner 1337 -j RETURN',
          '-d 10.96.0.10/32 -j CT --zone 15053',
        ],
      },
      { name: 'MESH_DNS_ANSWER', rules: ['-p udp -m udp --sport 5300 -j CT --zone 15053'] },
    ],
    jumps: ['OUTPUT -p udp -m udp --dport 53 -j MESH_DNS', 'OUTPUT -o lo -p udp -j MESH_DNS_ANSWER'],
  });
});

test('queries of the agent to a name server on this machine over TCP are not calls to its own workload', () => {
  const rules = rulesOf('ipv4', redirection(AGENT, ['127.0.0.53']), 'nat', 'MESH_OUTPUT') ?? [];
  assert.equal(rules[0], '-d 127.0.0.53/32 -o lo -p tcp -m tcp --dport 53 -j RETURN');
});

test('Envoy gets the queries over UDP, and none when the agent gets them', () => {
  const envoy = redirection({ dnsCapture: 'ALL' }, SERVERS);
  assert.deepEqual(rulesOf('ipv4', envoy, 'nat', 'MESH_DNS')?.slice(2), [
    '-d 10.96.0.10/32 -p udp -j REDIRECT --to-ports 15013',
  ]);
  assert.ok(!tableOf('ipv4', envoy, 'nat')?.jumps.some((jump) => jump.includes('tcp --dport')));
  assert.deepEqual(rulesOf('ipv4', envoy, 'raw', 'MESH_DNS_ANSWER'), [
    '-p udp -m udp --sport 15013 -j CT --zone 15053',
  ]);
  const both = { ...AGENT, dnsCapture: 'true' };
  assert.equal(redirection(both, SERVERS).dns?.port, 15053);
  assert.deepEqual(warnings(both), [
    'DNS_AGENT and MESH_META_DNS_CAPTURE are both set: DNS queries are redirected to the agent',
  ]);
});

test('a family without a captured name server has no rules of DNS', () => {
  for (const wanted of [redirection(AGENT, ['10.96.0.10']), redirection({}, SERVERS)]) {
    assert.equal(rulesOf('ipv6', wanted, 'nat', 'MESH_DNS'), undefined);
    assert.equal(tableOf('ipv6', wanted, 'raw'), undefined);
  }
});

test('“false” captures nothing', () => {
  assert.equal(redirection({ dnsAgent: 'false', dnsCapture: '0' }, SERVERS).dns, undefined);
});

test('name servers are read from resolv.conf as resolvers read it', () => {
  const text = '# nameserver 9.9.9.9\nsearch a.example\nnameserver 127.0.0.53\n nameserver\tfe80::1%eth0 # router\n';
  assert.deepEqual(parseNameservers(`${text};nameserver 8.8.8.8\nnameserver 127.0.0.53\nnameserver name\n`), [
    '127.0.0.53',
    'fe80::1',
  ]);
  // resolv.conf(5): without a name server, the one on the local machine is asked.
  assert.deepEqual(redirection(AGENT, parseNameservers('search a.example\n')).dns?.servers, ['127.0.0.1']);
});

test('an agent that listens in one family gets the queries to name servers of this family', () => {
  const changes = { ...AGENT, dnsAddress: '127.0.0.1:15053' };
  assert.deepEqual(redirection(changes, SERVERS).dns?.servers, ['10.96.0.10']);
  assert.deepEqual(warnings(changes), ['DNS_ADDR: 127.0.0.1:15053 does not receive queries to fd00::a']);
});

test('an address that redirected queries do not reach is refused', () => {
  const rows = [
    ['15053', 'DNS_ADDR: "15053": not an address like :8080 or 127.0.0.1:8080'],
    [':0', 'DNS_ADDR: ":0": port 0 is not a port for redirected queries'],
    ['192.0.2.1:53', 'DNS_ADDR: "192.0.2.1:53": redirected queries reach loopback only, not 192.0.2.1'],
    ...['0.0.0.0:15053', '[::]:15053', '*:15053'].map((dnsAddress) => {
      const host = dnsAddress.slice(0, -6).replace(/[[\]]/g, '');
      return [dnsAddress, `DNS_ADDR: "${dnsAddress}": redirected queries reach loopback only, not ${host}`] as const;
    }),
  ] as const;
  for (const [dnsAddress, message] of rows) {
    assert.throws(() => redirection({ ...AGENT, dnsAddress }, SERVERS), { code: 'invalid_argument', message });
  }
});

function warnings(changes: Partial<RedirectionSettings>): readonly string[] {
  return ineffectiveSettings({ ...DEFAULT_SETTINGS, ...changes }, redirection(changes, SERVERS), SERVERS);
}
