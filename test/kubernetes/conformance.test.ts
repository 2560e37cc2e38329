/**
 * A few tests of the official conformance suite of the Gateway API; `npm run conformance` runs all of them. They need a
 * working whole: the controller deploys gateways, whose Envoys route, and statuses are written.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { netnsUnavailable } from '../harness/index.ts';
import { conformanceUnavailable, kubernetesUnavailable, startConformance } from '../harness/kubernetes/index.ts';

const skip = kubernetesUnavailable() ?? conformanceUnavailable() ?? (await netnsUnavailable()) ?? false;

const TESTS = ['HTTPRouteSimpleSameNamespace', 'HTTPRouteMatching', 'HTTPRouteCrossNamespace'];

test('gateways conform to the Gateway API', { skip }, async (t) => {
  const bench = await startConformance(t);
  const { results, output } = await bench.run({ only: `^(${TESTS.join('|')})$` });
  const expected = Object.fromEntries(TESTS.map((name) => [name, 'pass']));
  assert.deepEqual(Object.fromEntries(results), expected, `${output.slice(-8_000)}\n${bench.describePods()}`);
});
