import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AgentSettings, defaultAgentSettings } from '../settings/index.ts';
import { planAgent } from './plan.ts';

test('a proxy is ready with the listeners of what is redirected to it', async () => {
  const needed = async (changes: Partial<AgentSettings>, role: 'sidecar' | 'router' = 'sidecar') => {
    const settings = defaultAgentSettings({ ip: '192.0.2.1', podName: 'web', ...changes });
    return (await planAgent(role, settings, {}, '')).neededListeners;
  };
  const connections = ['virtualInbound', 'virtualOutbound'];
  assert.deepEqual(await needed({}), connections);
  assert.deepEqual(await needed({ dnsCapture: 'true' }), [...connections, 'dns']);
  assert.deepEqual(await needed({ dnsCapture: 'false' }), connections);
  assert.deepEqual(await needed({ dnsCapture: 'true', dnsAgent: 'true' }), connections);
  assert.deepEqual(await needed({ dnsCapture: 'true', proxyConfig: '{"interceptionMode": "NONE"}' }), []);
  assert.deepEqual(await needed({ dnsCapture: 'true' }, 'router'), []);
});
