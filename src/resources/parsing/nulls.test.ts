import assert from 'node:assert/strict';
import { test } from 'node:test';
import { firstNull } from './nulls.ts';
import { parseResource } from './parse.ts';

/** Reads of a value's parts that one pass over a document may need, times the passes. */
const READS_OF_EACH = 20;

interface Counter {
  reads: number;
}

/** The same value, whose parts count how often they are read. */
function counted(value: unknown, counter: Counter): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const copy = Array.isArray(value) ? [] : {};
  for (const [key, item] of Object.entries(value)) {
    const part = counted(item, counter);
    const get = () => {
      counter.reads++;
      return part;
    };
    Object.defineProperty(copy, key, { enumerable: true, configurable: true, get });
  }
  return copy;
}

const withNulls = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, null]));

function nested(levels: number, inner: unknown): unknown {
  let value = inner;
  for (let level = 0; level < levels; level++) value = { a: value };
  return value;
}

function document(kind: string, spec: unknown): object {
  const group = kind === 'AuthorizationPolicy' ? 'security' : 'networking';
  return { apiVersion: `${group}.istio.io/v1`, kind, metadata: { name: 'deep', namespace: 'shop' }, spec };
}

function envoyFilter(value: unknown): object {
  const patch = { applyTo: 'CLUSTER', patch: { operation: 'MERGE', value } };
  return { ...document('EnvoyFilter', { configPatches: [patch] }), apiVersion: 'networking.istio.io/v1alpha3' };
}

const parse = (raw: unknown) => parseResource(raw, { source: 'test' }, () => undefined);

const [LEVELS, NULLS] = [150, 1000];
/** The nulls come last, so that a search for one reads the whole value. */
const DEEP = nested(LEVELS, { first: Array.from({ length: NULLS }, () => 1), ...withNulls(NULLS) });

for (const [name, raw] of Object.entries({
  'a value of an EnvoyFilter': envoyFilter(DEEP),
  'a selector without labels': document('ServiceEntry', { workloadSelector: { labels: { app: 'x' }, other: DEEP } }),
  'a field beside the guarded ones': document('VirtualService', { hosts: ['a.example'], other: DEEP }),
  'a field of a Sidecar': document('Sidecar', { ingress: [{ tls: DEEP }], egress: DEEP }),
})) {
  test(`nulls deep in ${name} are read a limited number of times`, () => {
    const counter = { reads: 0 };
    parse(counted(raw, counter));
    const values = JSON.stringify(raw).split(/[:,]/).length;
    assert.ok(counter.reads <= READS_OF_EACH * values, `${counter.reads} reads of ${values} values`);
  });
}

test('the path of a null is not copied unless the null is the one that is looked for', () => {
  const paths = new Set<unknown>();
  const found = firstNull({ spec: DEEP }, [], (path) => {
    paths.add(path);
    return path.at(-1) === 'k1';
  });
  assert.equal(paths.size, 1);
  assert.deepEqual(found, ['spec', ...Array.from({ length: LEVELS }, () => 'a'), 'k1']);
});

test('labels of a selector are not listed for each null in it', () => {
  let listed = 0;
  const written: Record<string, unknown> = Object.fromEntries(Array.from({ length: NULLS }, (_, i) => [`k${i}`, 'x']));
  const labels = new Proxy(written, {
    getOwnPropertyDescriptor(target, key) {
      listed++;
      return Reflect.getOwnPropertyDescriptor(target, key);
    },
  });
  const spec = { workloadSelector: { labels, ...withNulls(NULLS) }, hosts: ['a.example'] };
  parse(document('ServiceEntry', spec));
  assert.ok(listed <= READS_OF_EACH * NULLS, `${listed} labels listed`);
});

for (const levels of [195, 10_000, 100_000]) {
  test(`a document with ${levels} levels of nesting in a field is refused, and the field is named`, () => {
    const parsed = parse(envoyFilter(nested(levels, withNulls(1))));
    assert.ok('problem' in parsed);
    const { key, field, message } = parsed.problem;
    assert.deepEqual(
      [key, field, message],
      ['EnvoyFilter/shop/deep', 'spec.configPatches[0].patch.value.a.a.a', 'expected at most 200 levels of nesting'],
    );
  });
}

test('a policy that is nested too deep is replaced by a denial of what its selector covers', () => {
  const selector = { matchLabels: { app: 'web' } };
  const spec = { selector, rules: [{ from: nested(10_000, null) }] };
  const parsed = parse(document('AuthorizationPolicy', spec));
  assert.ok('problem' in parsed);
  assert.deepEqual(parsed.problem.substitutes, [
    {
      kind: 'AuthorizationPolicy',
      name: 'deep',
      namespace: 'shop',
      content: { selector, action: 'DENY', rules: [{}] },
      selectorKnown: true,
    },
  ]);
});

test('a null in the TLS settings of an ingress listener closes it', () => {
  const listener = (number: number, tls: unknown) => {
    return { port: { number, protocol: 'HTTPS', name: 'web' }, defaultEndpoint: '127.0.0.1:8080', tls };
  };
  const spec = { ingress: [listener(1, null), listener(2, { mode: 'SIMPLE', subjectAltNames: null })] };
  const parsed = parse(document('Sidecar', spec));
  assert.ok('resource' in parsed);
  assert.deepEqual(
    parsed.resource.warnings?.map(({ field }) => field),
    ['spec.ingress[0].tls', 'spec.ingress[1].tls.subjectAltNames'],
  );
});
