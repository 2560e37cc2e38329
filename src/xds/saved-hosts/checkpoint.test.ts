/** Checkpoints: what is written is read again, nothing is too long, and a wrong one is refused with one line. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { MAX_CHECKPOINT_BYTES, readCheckpoint, writeCheckpoint } from './checkpoint.ts';

const MINUTE_MS = 60_000;
const NOW = Date.UTC(2026, 10, 1);

const name = fc.oneof(fc.constantFrom('80/web', '__proto__', ''), fc.string({ maxLength: 40 }));
const hosts = fc.uniqueArray(
  fc.record({ name, unusedMs: fc.integer({ min: 0, max: 1000 }).map((minutes) => minutes * MINUTE_MS) }),
  { maxLength: 8, selector: (host) => host.name },
);
const scopes = fc.uniqueArray(fc.record({ scope: name, hosts }), { maxLength: 6, selector: ({ scope }) => scope });

test('property: what is written is read again, with its ages', () => {
  fc.assert(
    fc.property(scopes, (written) => {
      const { text, left } = writeCheckpoint(written, NOW);
      assert.equal(left, 0);
      assert.deepEqual(readCheckpoint(text, NOW + MINUTE_MS), aged(written, MINUTE_MS));
    }),
  );
});

const aged = (of: ReturnType<typeof readCheckpoint>, ms: number) =>
  of.map(({ scope, hosts: all }) => ({
    scope,
    hosts: all.map((host) => ({ ...host, unusedMs: host.unusedMs + ms })),
  }));

test('a checkpoint is bounded: scopes that were used first are left out', () => {
  const many = Array.from({ length: 400 }, (_, at) => ({
    scope: `namespace-${at}/`,
    hosts: Array.from({ length: 100 }, (__, host) => ({
      name: `80/"${at}-${host}".some-namespace.svc.cluster.local:80`,
      unusedMs: 0,
    })),
  }));
  const { text, written, left } = writeCheckpoint(many, NOW);
  assert.ok(Buffer.byteLength(text) <= MAX_CHECKPOINT_BYTES);
  assert.ok(Buffer.byteLength(text) > MAX_CHECKPOINT_BYTES / 2);
  assert.ok(left > 0);
  assert.deepEqual(written, many.slice(left));
  assert.deepEqual(readCheckpoint(text, NOW), written);
});

test('a namespace with many scopes leaves those of others in a checkpoint', () => {
  const scopeOf = (scope: string) => ({
    scope,
    hosts: Array.from({ length: 500 }, (_, host) => ({ name: `80/${scope}-${host}.example:80`, unusedMs: 0 })),
  });
  const many = ['quiet/', ...Array.from({ length: 100 }, (_, at) => `busy/${at}`)].map(scopeOf);
  const { text, written, left } = writeCheckpoint(many, NOW);
  assert.ok(left > 0);
  assert.deepEqual(written, [many[0], ...many.slice(left + 1)]);
  assert.deepEqual(readCheckpoint(text, NOW), written);
});

test('a wrong checkpoint is refused with one line', () => {
  const rows: readonly (readonly [string, RegExp])[] = [
    ['', /unknown format/],
    ['{"version":2}', /unknown format/],
    ['{"version":1,"hosts":["a"],"scopes":[["s",[[0,1]]]],"more":1}', /unknown format/],
    ['{"version":1,"hosts":["a"],"scopes":[["s",[[-1,1]]]]}', /unknown format/],
    ['{"version":1,"hosts":["a"],"scopes":[["s",[[0,1e99]]]]}', /unknown format/],
    ['{"version":1,"hosts":["a"],"scopes":[["s",[[1,1]]]]}', /names a host that is not there/],
    [JSON.stringify({ version: 1, hosts: [], scopes: Array(1001).fill(['s', []]) }), /unknown format/],
    [JSON.stringify({ version: 1, hosts: ['a'], scopes: [['s', Array(501).fill([0, 1])]] }), /unknown format/],
    [' '.repeat(MAX_CHECKPOINT_BYTES + 1), /more than 786432 bytes/],
  ];
  for (const [text, message] of rows) assert.throws(() => readCheckpoint(text, NOW), message);
  // A time in the future, of a machine with another clock, is now.
  const future = `{"version":1,"hosts":["a"],"scopes":[["s",[[0,${Math.ceil(NOW / MINUTE_MS) + 9}]]]]}`;
  assert.deepEqual(readCheckpoint(future, NOW), [{ scope: 's', hosts: [{ name: 'a', unusedMs: 0 }] }]);
});
