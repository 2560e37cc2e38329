/** The decoders that the bundle of generation keeps. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { PATCHED_TYPES, withDecodersOf } from './decoders.ts';

const REPOSITORY = join(import.meta.dirname, '../..');
const DECODER_OF = /^ *(\w+)\.decode = function/gm;

const kept = new Set(
  [
    ...withDecodersOf(PATCHED_TYPES, readFileSync(join(REPOSITORY, 'proto/gen/envoy.js'), 'utf8')).matchAll(DECODER_OF),
  ].map(([, name = '']) => name),
);

test('every message that generation decodes has its decoder', () => {
  const files = globSync('src/generate/**/*.ts', { cwd: REPOSITORY }).filter(
    (file) => !/\.test\.ts$|\/testing\//.test(file),
  );
  const decoded = files.flatMap((file) =>
    [...readFileSync(join(REPOSITORY, file), 'utf8').matchAll(/\b([A-Z]\w+)\.decode\(/g)].map(([, name = '']) => name),
  );
  assert.ok(decoded.includes('HttpFilter'), decoded.join());
  assert.deepEqual(
    decoded.filter((name) => !kept.has(name)),
    [],
  );
});

test('messages inside them are decoded, and those of no patch are not', () => {
  for (const name of ['FilterChain', 'VirtualHost', 'RetryPolicy', 'CircuitBreakers']) assert.ok(kept.has(name), name);
  for (const name of ['DiscoveryRequest', 'Bootstrap', 'ConfigDump']) assert.ok(!kept.has(name), name);
});
