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

test('the agent of a gateway announces the Secrets that it serves; a sidecar warns', async () => {
  const plan = async (changes: Partial<AgentSettings>, role: 'sidecar' | 'router' = 'router') => {
    const settings = defaultAgentSettings({ ip: '192.0.2.1', podName: 'web', podNamespace: 'edge', ...changes });
    const { identity, warnings, bootstrap } = await planAgent(role, settings, {}, '');
    return [identity?.gatewayNamespace, JSON.stringify(bootstrap).includes('"USER_SDS":"true"'), ...warnings];
  };
  const gatewaySecrets = true;
  assert.deepEqual(await plan({}), [undefined, false]);
  assert.deepEqual(await plan({ gatewaySecrets }), ['edge', true]);
  assert.deepEqual(await plan({ gatewaySecrets, gatewaySecretsNamespace: 'keys' }), ['keys', true]);
  assert.deepEqual(await plan({ gatewaySecrets }, 'sidecar'), [
    undefined,
    false,
    'ENABLE_INGRESS_GATEWAY_SDS has no effect on a sidecar: it is for gateways',
  ]);
  assert.match(String(await plan({ gatewaySecretsNamespace: 'keys' })), /INGRESS_GATEWAY_NAMESPACE has no effect/);
  await assert.rejects(
    plan({ gatewaySecrets, gatewaySecretsNamespace: 'a/b' }),
    /"a\/b" is not a valid namespace name/,
  );
});

test('the proxies in front of a gateway are told to the control plane, and a sidecar warns', async () => {
  const plan = async (role: 'sidecar' | 'router') => {
    const proxyConfig = '{"gatewayTopology": {"numTrustedProxies": 2}}';
    const settings = defaultAgentSettings({ ip: '192.0.2.1', podName: 'web', podNamespace: 'edge', proxyConfig });
    const { warnings, bootstrap } = await planAgent(role, settings, {}, '');
    return [
      JSON.stringify(bootstrap).includes('"PROXY_CONFIG":{"gatewayTopology":{"numTrustedProxies":2}}'),
      ...warnings,
    ];
  };
  assert.deepEqual(await plan('router'), [true]);
  assert.deepEqual(await plan('sidecar'), [
    false,
    'PROXY_CONFIG: gatewayTopology has no effect on a sidecar: it is for gateways',
  ]);
});
