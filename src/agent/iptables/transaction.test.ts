import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FOOTPRINT } from './footprint.ts';
import { redirectionRules } from './rules.ts';
import { redirection } from './testing/redirections.ts';
import { applyTransaction, cleanTransaction, NO_RULES, readExisting } from './transaction.ts';
import type { Interception, TableRules } from './types.ts';

const RULES: TableRules = {
  table: 'nat',
  chains: [{ name: 'MESH_OUTPUT', rules: ['-j RETURN'] }],
  jumps: ['OUTPUT -p tcp -j MESH_OUTPUT'],
};

const SAVED = `*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [10:600]
:FOREIGN - [0:0]
:MESH_INBOUND - [0:0]
:MESH_OUTPUT - [0:0]
-A PREROUTING -p tcp -j MESH_INBOUND
-A OUTPUT -p tcp -j FOREIGN
-A OUTPUT -p tcp -j MESH_OUTPUT
-A FOREIGN -p tcp -j MESH_OUTPUT
-A MESH_INBOUND -p tcp -m tcp --dport 22 -j RETURN
COMMIT
`;

test('existing rules of meshd are read, and no others', () => {
  assert.deepEqual(readExisting('nat', SAVED), {
    chains: [
      { name: 'MESH_INBOUND', rules: ['-p tcp -m tcp --dport 22 -j RETURN'] },
      { name: 'MESH_OUTPUT', rules: [] },
    ],
    jumps: ['PREROUTING -p tcp -j MESH_INBOUND', 'OUTPUT -p tcp -j MESH_OUTPUT'],
  });
  assert.deepEqual(readExisting('nat', ''), NO_RULES);
});

test('everything is created in an empty table', () => {
  assert.equal(
    applyTransaction(RULES, NO_RULES),
    '*nat\n:MESH_OUTPUT - [0:0]\n-A MESH_OUTPUT -j RETURN\n-A OUTPUT -p tcp -j MESH_OUTPUT\nCOMMIT\n',
  );
});

test('an existing jump stays where it is, and obsolete ones are removed', () => {
  assert.equal(
    applyTransaction(RULES, readExisting('nat', SAVED)),
    '*nat\n:MESH_OUTPUT - [0:0]\n:MESH_INBOUND - [0:0]\n-D PREROUTING -p tcp -j MESH_INBOUND\n' +
      '-A MESH_OUTPUT -j RETURN\n-X MESH_INBOUND\nCOMMIT\n',
  );
});

test('a duplicate jump is removed', () => {
  const [jump = ''] = RULES.jumps;
  const text = applyTransaction(RULES, { chains: [{ name: 'MESH_OUTPUT', rules: [] }], jumps: [jump, jump] });
  assert.equal(text.split(`-D ${jump}\n`).length, 3);
  assert.equal(text.split(`-A ${jump}\n`).length, 2);
});

test('jumps for DNS precede the rules of others', () => {
  const rules: TableRules = { ...RULES, jumps: ['OUTPUT -p udp -m udp --dport 53 -j MESH_DNS', ...RULES.jumps] };
  const lines = applyTransaction(rules, NO_RULES).split('\n');
  assert.deepEqual(lines.slice(-4, -2), [
    '-I OUTPUT -p udp -m udp --dport 53 -j MESH_DNS',
    '-A OUTPUT -p tcp -j MESH_OUTPUT',
  ]);
});

test('cleaning removes existing jumps before chains, and nothing from an empty table', () => {
  assert.equal(
    cleanTransaction('nat', readExisting('nat', SAVED)),
    '*nat\n:MESH_INBOUND - [0:0]\n:MESH_OUTPUT - [0:0]\n-D PREROUTING -p tcp -j MESH_INBOUND\n' +
      '-D OUTPUT -p tcp -j MESH_OUTPUT\n-X MESH_INBOUND\n-X MESH_OUTPUT\nCOMMIT\n',
  );
  assert.equal(cleanTransaction('nat', NO_RULES), undefined);
});

test('cleaning knows every chain and jump of all rule sets', () => {
  const modes: readonly Interception['mode'][] = ['REDIRECT', 'TPROXY'];
  for (const meshInboundInterceptionMode of modes) {
    const capture = { meshInboundPorts: '*', orchVirtInterfaces: 'a', dnsAgent: 'true' };
    const wanted = redirection({ meshInboundInterceptionMode, ...capture });
    for (const { table, chains, jumps } of redirectionRules('ipv4', wanted)) {
      for (const { name } of chains) assert.ok(FOOTPRINT[table].chains.includes(name), name);
      for (const jump of jumps) assert.ok(FOOTPRINT[table].jumps.includes(jump), jump);
    }
  }
});
