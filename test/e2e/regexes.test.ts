/** Regular expressions that are accepted, in real Envoys: they accept them, and their programs are not larger. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../src/core/testing/properties.ts';
import { readRegex } from '../../src/regex/index.ts';
import { REGEXES } from '../../src/resources/testing/regexes.ts';
import { envoyBinaries, validate } from '../golden-harness/envoy.ts';

/** Fixed, so that a run of the tests that fails does so again. */
const SEED = 25;
const EXPRESSIONS = 3000;
/** Envoy writes the size of each program above the level of warnings. */
const SIZE = /regex '(.*)' RE2 program size of (\d+)/g;

/** What users write, and what is near a limit. */
const WRITTEN = [
  '/api/v[0-9]+/users/.*',
  '(a|b)*c{1,900}',
  '(\\w{30}){33}',
  '.*\\.example\\.(com|org)',
  '(?i)^k+$',
  '(?:b+?)?',
];

function accepted(): ReadonlyMap<string, number> {
  const patterns = [...WRITTEN, ...fc.sample(REGEXES, { numRuns: EXPRESSIONS, seed: SEED })];
  const sizes = new Map<string, number>();
  for (const pattern of patterns) {
    const read = readRegex(pattern);
    if (!('problem' in read)) sizes.set(pattern, read.size);
  }
  return sizes;
}

function bootstrapOf(patterns: Iterable<string>) {
  const routes = Array.from(patterns, (regex) => {
    return { match: { safe_regex: { regex } }, direct_response: { status: 200 } };
  });
  const api = 'type.googleapis.com/envoy.extensions.filters';
  const router = { name: 'router', typed_config: { '@type': `${api}.http.router.v3.Router` } };
  const manager = {
    '@type': `${api}.network.http_connection_manager.v3.HttpConnectionManager`,
    stat_prefix: 'regexes',
    route_config: { virtual_hosts: [{ name: 'all', domains: ['*'], routes }] },
    http_filters: [router],
  };
  const listener = {
    name: 'regexes',
    address: { socket_address: { address: '127.0.0.1', port_value: 0 } },
    filter_chains: [{ filters: [{ name: 'http', typed_config: manager }] }],
  };
  const levels = { 're2.max_program_size.error_level': 32_768, 're2.max_program_size.warn_level': 0 };
  return {
    layered_runtime: { layers: [{ name: 'static', static_layer: levels }] },
    static_resources: { listeners: [listener] },
  };
}

for (const [age, binary] of Object.entries(envoyBinaries())) {
  const skip = binary === undefined && 'there is no such Envoy';
  test(`the ${age} Envoy accepts the expressions that are accepted`, { skip }, async () => {
    const sizes = accepted();
    assert.ok(sizes.size > EXPRESSIONS / 2, `${sizes.size} of ${EXPRESSIONS}`);
    const log = await validate(binary ?? '', bootstrapOf(sizes.keys()));
    let compared = 0;
    for (const [, pattern = '', size] of log.matchAll(SIZE)) {
      compared++;
      const most = sizes.get(pattern) ?? 0;
      assert.ok(Number(size) <= most, `${pattern}: ${size} steps, at most ${most} were expected`);
    }
    assert.equal(compared, sizes.size);
  });
}
