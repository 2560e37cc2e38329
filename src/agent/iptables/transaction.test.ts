import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FOOTPRINT } from './footprint.ts';
import { redirectionRules } from './rules.ts';
import { redirection } from './testing.ts';
import { applyTransaction, cleanTransaction, NOTHING_STANDING, readStanding } from './transaction.ts';
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
COMMIT
`;

test('what stands is read, and nothing of others is taken for ours', () => {
  assert.deepEqual(readStanding('nat', SAVED), {
    chains: ['MESH_INBOUND', 'MESH_OUTPUT'],
    jumps: ['PREROUTING -p tcp -j MESH_INBOUND', 'OUTPUT -p tcp -j MESH_OUTPUT'],
  });
  assert.deepEqual(readStanding('nat', ''), NOTHING_STANDING);
});

test('on an empty table everything is made', () => {
  assert.equal(
    applyTransaction(RULES, NOTHING_STANDING),
    '*nat\n:MESH_OUTPUT - [0:0]\n-A MESH_OUTPUT -j RETURN\n-A OUTPUT -p tcp -j MESH_OUTPUT\nCOMMIT\n',
  );
});

test('a jump that stands stays at its place; what is not wanted any more goes', () => {
  assert.equal(
    applyTransaction(RULES, readStanding('nat', SAVED)),
    '*nat\n:MESH_OUTPUT - [0:0]\n:MESH_INBOUND - [0:0]\n-D PREROUTING -p tcp -j MESH_INBOUND\n' +
      '-A MESH_OUTPUT -j RETURN\n-X MESH_INBOUND\nCOMMIT\n',
  );
});

test('a jump that stands twice becomes one', () => {
  const [jump = ''] = RULES.jumps;
  const text = applyTransaction(RULES, { chains: ['MESH_OUTPUT'], jumps: [jump, jump] });
  assert.equal(text.split(`-D ${jump}\n`).length, 3);
  assert.equal(text.split(`-A ${jump}\n`).length, 2);
});

test('cleaning removes what stands, jumps before chains, and nothing where nothing stands', () => {
  assert.equal(
    cleanTransaction('nat', readStanding('nat', SAVED)),
    '*nat\n:MESH_INBOUND - [0:0]\n:MESH_OUTPUT - [0:0]\n-D PREROUTING -p tcp -j MESH_INBOUND\n' +
      '-D OUTPUT -p tcp -j MESH_OUTPUT\n-X MESH_INBOUND\n-X MESH_OUTPUT\nCOMMIT\n',
  );
  assert.equal(cleanTransaction('nat', NOTHING_STANDING), undefined);
});

test('every chain and jump that any rule set has is known to cleaning', () => {
  const modes: readonly Interception['mode'][] = ['REDIRECT', 'TPROXY'];
  for (const meshInboundInterceptionMode of modes) {
    const wanted = redirection({ meshInboundInterceptionMode, meshInboundPorts: '*', orchVirtInterfaces: 'a' });
    for (const { table, chains, jumps } of redirectionRules('ipv4', wanted)) {
      for (const { name } of chains) assert.ok(FOOTPRINT[table].chains.includes(name), name);
      for (const jump of jumps) assert.ok(FOOTPRINT[table].jumps.includes(jump), jump);
    }
  }
});
