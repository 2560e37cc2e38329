/**
 * Golden files: `golden/<name>/in.yaml` (see `golden-harness/input.ts`) is what a user writes, `out.yaml` beside it
 * the configuration that proxies get for it. `UPDATE_GOLDEN=1` rewrites the outputs; review them like code. The newest
 * and the oldest supported Envoy validate each of them.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse, stringify } from 'yaml';
import { isAtLeast, OLDEST_TESTED } from '../src/core/envoy-version.ts';
import type { JsonObject } from '../src/protobuf/index.ts';
import { bootstrapOf, envoyBinaries, validate, withoutFilters } from './golden-harness/envoy.ts';
import { type GoldenInput, readInput } from './golden-harness/input.ts';
import { isObject } from './golden-harness/json.ts';
import { outputOf, type ProxyOutput } from './golden-harness/output.ts';

const FOLDER = fileURLToPath(new URL('golden', import.meta.url));
const UPDATE = process.env.UPDATE_GOLDEN === '1';

const { newest, oldest } = envoyBinaries();
const skip = newest === undefined ? 'no Envoy: run the set-up, or set ENVOY_PATH' : false;
const skipOldest = oldest === undefined ? 'no older Envoy: run the set-up, or set OLDEST_ENVOY_PATH' : false;

for (const name of readdirSync(FOLDER).sort()) {
  const file = join(FOLDER, name, 'in.yaml');
  const expected = join(FOLDER, name, 'out.yaml');

  test(`golden ${name}`, async (t) => {
    const input = readInput(file);
    const outputs = new Map([...input.proxies].map(([proxy, node]) => [proxy, outputOf(input.snapshot, node)]));
    // No Envoy gets the configuration of gRPC applications.
    const outputsOfEnvoys = () => [...outputs].filter(([proxy]) => input.proxies.get(proxy)?.proxyless !== true);
    const bootstrap = (output: ProxyOutput) => withoutFilters(bootstrapOf(output), input.unvalidated);
    await t.test('is what proxies get', () => {
      const text = textOf(input, outputs);
      if (UPDATE) writeFileSync(expected, text);
      assert.ok(existsSync(expected), `no ${expected}: make it with UPDATE_GOLDEN=1`);
      assert.deepEqual(parse(text), parse(readFileSync(expected, 'utf8')));
    });
    await t.test('is accepted by Envoy without warnings about deprecated fields', { skip }, async () => {
      for (const [proxy, output] of outputsOfEnvoys()) {
        const warnings = await validate(newest ?? '', bootstrap(output));
        const node = input.proxies.get(proxy);
        if (isAtLeast(node?.version ?? '', OLDEST_TESTED)) assert.doesNotMatch(warnings, /deprecated/i);
      }
    });
    const skipped = input.newestOnly ? 'has what only newer Envoys know' : skipOldest;
    await t.test('is accepted by the oldest supported Envoy', { skip: skipped }, async () => {
      for (const [, output] of outputsOfEnvoys()) await validate(oldest ?? '', bootstrap(output));
    });
  });
}

function textOf({ show }: GoldenInput, outputs: ReadonlyMap<string, ProxyOutput>): string {
  const shown = [...outputs].map(([proxy, output]) => [
    proxy,
    {
      ...Object.fromEntries(
        show.map((type) => [type, type === 'secrets' ? output[type].map(withoutKey) : output[type]]),
      ),
      ...(output.findings.length > 0 && { findings: output.findings }),
    },
  ]);
  return stringify(Object.fromEntries(shown), { lineWidth: 0, aliasDuplicateObjects: false });
}

/** Shows that there is a key, but not which: the certificates of golden files are replaced from time to time. */
function withoutKey(secret: JsonObject): JsonObject {
  const { tls_certificate: pair } = secret;
  return isObject(pair) ? { ...secret, tls_certificate: { ...pair, private_key: '…' } } : secret;
}
