import assert from 'node:assert/strict';
import { test } from 'node:test';
import { discoveryEnv } from './discovery-env.ts';
import { unservedVariables } from './unserved-env.ts';

test('variables that ask for what this version does not do are named, those that ask for nothing are not', () => {
  const env = {
    CTL_ENABLE_STATUS: 'true',
    CTL_ENABLE_ANALYSIS: 'false',
    CTL_STATUS_QPS: '5',
    DNS_ADDR: '',
    PATH: '/bin',
  };
  assert.deepEqual(unservedVariables(env), ['CTL_ENABLE_STATUS', 'CTL_STATUS_QPS']);
  assert.deepEqual(unservedVariables({}), []);
});

test('their values are checked all the same', () => {
  assert.throws(
    () => unservedVariables({ CTL_ENABLE_STATUS: 'banana' }),
    /"banana" of variable CTL_ENABLE_STATUS: not true or false/,
  );
  assert.throws(() => unservedVariables({ CTL_TRACE_SAMPLING: '101' }), /CTL_TRACE_SAMPLING/);
});

test('none of them is one that is acted on', () => {
  const all = Object.fromEntries(Object.keys(discoveryEnv).map((name) => [name, 'banana']));
  assert.deepEqual(unservedVariables(all), []);
});
