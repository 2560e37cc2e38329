import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InputCache } from './input-cache.ts';

interface Inputs {
  readonly service: object;
  readonly rule: object | undefined;
  readonly network: string;
}

function counted() {
  let made = 0;
  const cache = new InputCache<Inputs, Inputs>((inputs) => {
    made++;
    return { ...inputs };
  });
  return { get: (inputs: Inputs) => cache.get(inputs.service, inputs), made: () => made };
}

test('the same inputs: one result', () => {
  const { get, made } = counted();
  const inputs = { service: {}, rule: {}, network: '' };
  assert.equal(get(inputs), get({ ...inputs }));
  assert.equal(made(), 1);
});

test('every member counts', () => {
  const { get, made } = counted();
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
  assert.equal(made(), variants.length);
});

test('a failure is not kept, and old results go when there are too many', () => {
  let fails = true;
  const cache = new InputCache<{ readonly n: number }, number>(({ n }) => {
    if (fails) throw new Error('no');
    return n;
  });
  const anchor = {};
  assert.throws(() => cache.get(anchor, { n: 1 }));
  fails = false;
  for (let n = 0; n < 100; n++) assert.equal(cache.get(anchor, { n }), n);
  assert.equal(cache.get(anchor, { n: 1 }), 1);
});
