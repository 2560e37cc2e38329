import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Memos } from '../../core/memo.ts';
import { InputCache } from './input-cache.ts';

interface Inputs {
  readonly service: object;
  readonly rule: object | undefined;
  readonly network: string;
}

function counted(memos = new Memos()) {
  let computed = 0;
  const cache = new InputCache<Inputs, Inputs>('inputs', (inputs) => {
    computed++;
    return { ...inputs };
  });
  return { get: (inputs: Inputs) => cache.get(memos, inputs.service, inputs), computed: () => computed };
}

test('equal inputs give one result', () => {
  const { get, computed } = counted();
  const inputs = { service: {}, rule: {}, network: '' };
  assert.equal(get(inputs), get({ ...inputs }));
  assert.equal(computed(), 1);
});

test('every member of the inputs counts', () => {
  const { get, computed } = counted();
  const service = {};
  const variants: Inputs[] = [
    { service, rule: undefined, network: '' },
    { service, rule: {}, network: '' },
    { service, rule: {}, network: '' },
    { service, rule: undefined, network: 'n' },
    { service: {}, rule: undefined, network: '' },
  ];
  for (const inputs of variants) assert.deepEqual(get(inputs), inputs);
  for (const inputs of variants) assert.equal(get(inputs).rule, inputs.rule);
  assert.equal(computed(), variants.length);
});

test('a failure is not cached, and old results are evicted when there are too many', () => {
  const memos = new Memos();
  let fails = true;
  const cache = new InputCache<{ readonly n: number }, number>('numbers', ({ n }) => {
    if (fails) throw new Error('no');
    return n;
  });
  const anchor = {};
  assert.throws(() => cache.get(memos, anchor, { n: 1 }));
  fails = false;
  for (let n = 0; n < 1000; n++) assert.equal(cache.get(memos, anchor, { n }), n);
  assert.equal(cache.get(memos, anchor, { n: 1 }), 1);
});

test('results for two hundred localities are each computed once', () => {
  const { get, computed } = counted();
  const service = {};
  for (let round = 0; round < 2; round++)
    for (let zone = 0; zone < 200; zone++) get({ service, rule: undefined, network: `zone-${zone}` });
  assert.equal(computed(), 200);
});

test('few results for older versions of an input are kept, in one locality and in many', () => {
  const versions = Array.from({ length: 100 }, () => ({}));
  for (const [localities, most] of [
    [1, 24],
    [50, 24 + 50 * 4],
  ] as const) {
    const { get, computed } = counted();
    const service = {};
    const all = versions.flatMap((rule) =>
      Array.from({ length: localities }, (_, zone) => ({ service, rule, network: `zone-${zone}` })),
    );
    for (const inputs of all) get(inputs);
    // From the newest: a result that is cached is used before new ones evict it.
    const before = computed();
    for (const inputs of all.toReversed().slice(0, most + 1)) get(inputs);
    assert.ok(computed() > before, `${localities} localities`);
    assert.equal(get(all.at(-1) as Inputs).rule, versions.at(-1));
  }
});

test('nothing is cached where memos are off', () => {
  const { get, computed } = counted(new Memos({ enabled: false }));
  const inputs = { service: {}, rule: {}, network: '' };
  assert.deepEqual(get(inputs), get({ ...inputs }));
  assert.equal(computed(), 2);
});
