import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type AgentSettings, defaultAgentSettings, type Environment } from '../../settings/index.ts';
import { type DnsPlan, dnsPlan } from './plan.ts';

const CONTROL_PLANE = { host: '192.0.2.1', port: 15012, tls: true, serverName: 'meshd.mesh-system.svc' };
const WORKLOAD = { namespace: 'shop', domain: 'shop.svc.cluster.local' };

function plan(changes: Partial<AgentSettings>, env: Environment = {}): Promise<DnsPlan | undefined> {
  const settings = defaultAgentSettings(changes);
  return dnsPlan({ settings, env, workload: WORKLOAD, controlPlane: [CONTROL_PLANE] });
}

const ON = { dnsAgent: 'true' };

describe('the DNS server of the agent', () => {
  test('is off without DNS_AGENT and DNS_ADDR', async () => {
    assert.equal(await plan({}), undefined);
    assert.equal(await plan({ dnsAgent: 'false', dnsCapture: 'true' }), undefined);
  });

  test('listens on loopback unless an address is given', async () => {
    assert.deepEqual(await plan(ON), {
      address: { host: 'loopback', port: 15053 },
      server: undefined,
      namespace: 'shop',
      domain: 'svc.cluster.local',
      warnings: [],
    });
    const dnsAddress = '192.0.2.2:53';
    const given = await plan({ dnsAddress }, { DNS_ADDR: dnsAddress });
    assert.deepEqual(given?.address, { host: '192.0.2.2', port: 53 });
    const warning = 'DNS_ADDR 192.0.2.2:53: every client that reaches this address can resolve names';
    assert.deepEqual(given?.warnings, [warning]);
    assert.equal((await plan({ ...ON, dnsAddress: '*:53' }))?.address.host, 'all');
    assert.equal((await plan({ ...ON, dnsAddress: 'localhost:53' }))?.address.host, 'loopback');
  });

  test('answers in place of Envoy', async () => {
    const both = await plan({ ...ON, dnsCapture: 'true' });
    assert.match(both?.warnings[0] ?? '', /both set: the agent, not Envoy, answers DNS queries$/);
  });

  test('knows a control plane by its address, whose certificate has another name', async () => {
    const server = async (dnsServer: string) => (await plan({ ...ON, dnsServer }))?.server;
    assert.deepEqual(await server('tcp-tls:192.0.2.1:15053'), {
      host: '192.0.2.1',
      port: 15053,
      controlPlaneName: 'meshd.mesh-system.svc',
    });
    assert.deepEqual(await server('tcp-tls:dns.example'), {
      host: 'dns.example',
      port: 853,
      controlPlaneName: undefined,
    });
  });

  const refused = [
    [{ dnsAddress: '15053' }, 'DNS_ADDR', 'not an address like :8080 or 127.0.0.1:8080'],
    [{ dnsAddress: 'localhost:' }, 'DNS_ADDR', 'not an address like'],
    [{ dnsAddress: ':0' }, 'DNS_ADDR', 'port 0 is not allowed'],
    [{ dnsAddress: 'host:53' }, 'DNS_ADDR', 'host is not an IP address'],
    [{ dnsServer: 'udp:192.0.2.1:53' }, 'DNS_SERVER', 'expected tcp-tls:HOST:PORT'],
    [{ dnsServer: 'tcp-tls:' }, 'DNS_SERVER', 'expected tcp-tls:HOST:PORT'],
  ] as const;
  for (const [changes, variable, reason] of refused) {
    test(`is refused with ${JSON.stringify(changes)}`, async () => {
      await assert.rejects(plan(changes), ({ message }: Error) => {
        assert.match(message, new RegExp(`^invalid value "[^"]*" of variable ${variable}: `));
        assert.ok(message.includes(reason) && !message.includes('\n'), message);
        return true;
      });
    });
  }
});
