import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SCHEMAS } from '../../../resources/kinds/schemas.ts';
import { defaultMeshConfig } from '../../../resources/mesh-config.ts';
import { type Direction, loggersOf, spansOf } from './documents.ts';

const NONE = defaultMeshConfig();
const DEFAULTS = { ...NONE, defaultProviders: { tracing: ['zipkin', 'second'], accessLogging: ['a', 'b'] } };

const documents = (...specs: readonly unknown[]) => specs.map((spec) => SCHEMAS.Telemetry.parse(spec));
const logs = (mesh: typeof NONE, specs: readonly unknown[], direction: Direction = 'CLIENT') =>
  loggersOf(mesh, documents(...specs), direction);
const named = (...names: readonly string[]) => names.map((name) => ({ name }));

test('without documents the defaults count', () => {
  assert.deepEqual(logs(NONE, []), [{}]);
  assert.deepEqual(logs(DEFAULTS, []), [{ provider: 'a' }, { provider: 'b' }]);
  const { provider, written } = spansOf(DEFAULTS, [], 'SERVER');
  assert.deepEqual([provider, written], ['zipkin', false]);
});

test('providers of a narrower document replace those of wider ones', () => {
  const wide = { accessLogging: [{ providers: named('c') }] };
  const narrow = { accessLogging: [{ providers: named('d') }, { providers: named('e'), filter: { expression: 'x' } }] };
  assert.deepEqual(logs(DEFAULTS, [wide, narrow]), [{ provider: 'd' }, { provider: 'e', only: 'x' }]);
});

test('entries without providers are about all of them', () => {
  const filter = { accessLogging: [{ filter: { expression: 'x' } }] };
  assert.deepEqual(logs(NONE, [filter]), [{ only: 'x' }]);
  assert.deepEqual(logs(DEFAULTS, [filter]), [
    { provider: 'a', only: 'x' },
    { provider: 'b', only: 'x' },
  ]);
  const off = { accessLogging: [{ disabled: true }] };
  assert.deepEqual(logs(DEFAULTS, [off]), []);
  assert.deepEqual(logs(DEFAULTS, [off, { accessLogging: [{}] }]), [{ provider: 'a' }, { provider: 'b' }]);
});

test('one provider can be switched off', () => {
  const off = { accessLogging: [{ providers: named('a'), disabled: true }] };
  assert.deepEqual(logs(DEFAULTS, [off]), [{ provider: 'b' }]);
});

test('entries of the other direction have no effect', () => {
  const off = {
    accessLogging: [{ match: { mode: 'SERVER' }, disabled: true }],
    tracing: [{ match: { mode: 'CLIENT' } }],
  };
  assert.deepEqual(logs(NONE, [off]), [{}]);
  assert.deepEqual(logs(NONE, [off], 'SERVER'), []);
  const written = (direction: Direction) => spansOf(NONE, documents(off), direction).written;
  assert.deepEqual([written('CLIENT'), written('SERVER')], [true, false]);
});

test('fields that a tracing document does not set come from the wider one', () => {
  const wide = { tracing: [{ providers: named('p'), randomSamplingPercentage: 5, disableSpanReporting: true }] };
  const narrow = { tracing: [{ disableSpanReporting: false, customTags: { a: { literal: { value: 'b' } } } }] };
  const { provider, sampling, disabled, customTags } = spansOf(DEFAULTS, documents(wide, narrow), 'CLIENT');
  assert.deepEqual([provider, sampling, disabled], ['p', 5, false]);
  assert.deepEqual(Object.keys(customTags ?? {}), ['a']);
});
