import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agentEnv } from './agent/agent-env.ts';
import { discoveryEnv } from './discovery/discovery-env.ts';
import { AGENT_UNSERVED, DISCOVERY_UNSERVED, describeUnserved, unservedVariables } from './unserved-env.ts';

test('variables set to something else than their default are reported', () => {
  const env = {
    MESH_METRICS_ANNOTATIONS: 'x',
    SECRET_WATCHER_RESYNC_PERIOD: '',
    DNS_ADDR: '',
    PATH: '/bin',
  };
  assert.deepEqual(unservedVariables(DISCOVERY_UNSERVED, env), ['MESH_METRICS_ANNOTATIONS']);
  assert.deepEqual(unservedVariables(DISCOVERY_UNSERVED, {}), []);
});

test('an invalid value is refused', () => {
  assert.throws(
    () => unservedVariables({ CTL_FEATURE: false }, { CTL_FEATURE: 'banana' }),
    /"banana" of variable CTL_FEATURE: not true or false/,
  );
});

test('variables that ctl-discovery acts on are not in its table', () => {
  const all = Object.fromEntries(Object.keys(discoveryEnv).map((name) => [name, 'banana']));
  assert.deepEqual(unservedVariables(DISCOVERY_UNSERVED, all), []);
});

test('variables of the agent are reported and checked, and not those that it acts on', () => {
  const env = {
    SECRET_WATCHER_RESYNC_PERIOD: '1m',
    CTL_HTTP10: 'true',
  };
  assert.deepEqual(unservedVariables(AGENT_UNSERVED, env), ['SECRET_WATCHER_RESYNC_PERIOD']);
  const all = Object.fromEntries(Object.keys(agentEnv).map((name) => [name, 'banana']));
  assert.deepEqual(unservedVariables(AGENT_UNSERVED, all), []);
});

test('a variable for which there is another way is reported with it', () => {
  assert.equal(
    describeUnserved(['CTL_ENABLE_INCREMENTAL_MCP', 'SECRET_WATCHER_RESYNC_PERIOD']),
    'CTL_ENABLE_INCREMENTAL_MCP, SECRET_WATCHER_RESYNC_PERIOD (Secrets are watched, and nothing is polled)',
  );
});
