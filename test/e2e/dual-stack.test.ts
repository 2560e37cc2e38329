/**
 * Machines with IPv4 and IPv6, redirected in both families by `ctl-agent mesh-iptables`: agents, Envoys and mutual TLS
 * as in production. Beside them a machine without IPv6, a gateway, and one whose node hides its IPv6 address.
 */
import assert from 'node:assert/strict';
import { networkInterfaces } from 'node:os';
import { before, describe, test } from 'node:test';
import {
  type EchoReply,
  eventually,
  freePort,
  netnsUnavailable,
  runCtlAgent,
  startEcho,
  startEchoIn,
} from '../harness/index.ts';
import { type Document, endpoints, resource, service } from './support/config.ts';
import { type IdentityWorld, startIdentityWorld, UNBOUND_PORT, type Workload } from './support/identity-world.ts';
import { planMesh, startMesh } from './support/mesh.ts';
import { httpOutcome } from './support/peer-calls.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call } from './support/traffic.ts';

const skip = (await netnsUnavailable()) ?? false;

const NAMESPACE = 'shop';
/** A port at which an application listens on ::1 only. */
const IPV6_APPLICATION_PORT = 8077;
const GATEWAY_PORT = 8443;

interface Machines {
  readonly world: IdentityWorld;
  readonly client: Workload;
  readonly web: Workload;
  readonly transparent: Workload;
  readonly gateway: Workload;
  /** IPv6 is switched off. */
  readonly old: Workload;
  /** A machine whose node reports no IPv6 address, so that its proxy does not listen on IPv6. */
  readonly hidden: Workload;
  /** No proxy. */
  readonly outside: Workload;
}

const owner = suiteOwner();
const shared = lazy<Machines>();
const machines = (): Machines => shared.get();

/** A service with an address of each family; its workload is reached by these addresses of the pod. */
function dualService(
  name: string,
  number: number,
  pod: string,
  ips: readonly string[],
  targetPort: number,
): Document[] {
  const clusterIPs = [`10.97.0.${number}`, `fd00:97::${number}`];
  const ports = [{ name: 'http', port: 80, targetPort }];
  return [
    service(name, { namespace: NAMESPACE, clusterIP: clusterIPs[0] ?? '', ports, more: { clusterIPs } }),
    {
      apiVersion: 'v1',
      kind: 'Endpoints',
      metadata: { name, namespace: NAMESPACE },
      subsets: [
        {
          addresses: ips.map((ip) => ({ ip, targetRef: { kind: 'Pod', name: pod, namespace: NAMESPACE } })),
          ports: [{ name: 'http', port: targetPort }],
        },
      ],
    },
  ];
}

async function start(): Promise<Machines> {
  const world = await startIdentityWorld(owner, {});
  const add = (name: string, options: Partial<Parameters<IdentityWorld['addWorkload']>[0]> = {}) =>
    world.addWorkload({ name, namespace: NAMESPACE, proxied: true, ...options });
  const hiddenEnv: Record<string, string> = {};
  const [client, web, transparent, gateway, old, hidden, outside] = await Promise.all([
    add('client'),
    add('web'),
    add('transparent', { interception: 'TPROXY' }),
    add('gateway', { role: 'router' }),
    add('old', {
      prepare: (netns) => netns.run('sh', '-ec', 'echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6'),
    }),
    add('hidden', {
      env: hiddenEnv,
      prepare: async ({ address }) => Object.assign(hiddenEnv, { MESH_META_INSTANCE_IPS: address }),
    }),
    add('outside', { proxied: false }),
  ]);
  await startEchoIn(owner, web.netns, {
    name: web.id,
    protocol: 'http',
    address: '::1',
    port: IPV6_APPLICATION_PORT,
  });
  const ips = ({ netns }: Workload) => [netns.address, netns.address6];
  await world.config.apply(
    'services',
    ...dualService('both', 1, 'web', ips(web), 8080),
    ...dualService('six', 2, 'web', [web.netns.address6], 8080),
    ...dualService('transparent-six', 3, 'transparent', [transparent.netns.address6], 8080),
    ...dualService('behind', 4, 'web', [web.netns.address], IPV6_APPLICATION_PORT),
    resource(
      'Gateway',
      'edge',
      {
        selector: { app: 'gateway' },
        servers: [{ port: { number: GATEWAY_PORT, name: 'http', protocol: 'HTTP' }, hosts: ['*'] }],
      },
      NAMESPACE,
    ),
    resource(
      'VirtualService',
      'edge',
      { hosts: ['*'], gateways: ['edge'], http: [{ route: [{ destination: { host: 'six' } }] }] },
      NAMESPACE,
    ),
  );
  return { world, client, web, transparent, gateway, old, hidden, outside };
}

before(async () => {
  if (skip === false) shared.set(await start());
});

const FAMILIES = ['ipv4', 'ipv6'] as const;
type Family = (typeof FAMILIES)[number];

const addressOf = ({ netns }: Workload, family: Family) => (family === 'ipv4' ? netns.address : `[${netns.address6}]`);
const vipOf = (number: number, family: Family) => (family === 'ipv4' ? `10.97.0.${number}` : `[fd00:97::${number}]`);

const outcome = (from: Workload, to: Workload, url: string) => httpOutcome(from, to, ['-m', '20', url]);

async function echoOf(from: Workload, url: string): Promise<EchoReply> {
  return JSON.parse(await from.netns.run('curl', '-sS', '--fail', '-m', '20', url)) as EchoReply;
}

for (const family of FAMILIES) {
  describe(`over ${family}`, { skip }, () => {
    const SERVICES = { both: 1, 'with an IPv6 endpoint alone': 2, 'with an application on ::1 alone': 4 };
    for (const [what, number] of Object.entries(SERVICES)) {
      test(`a service ${what} is called through both proxies, with mutual TLS`, async () => {
        const { client, web } = machines();
        const url = `http://${vipOf(number, family)}/`;
        await eventually(async () => assert.equal(await outcome(client, web, url), '200 mtls'));
      });
    }

    test('a service whose proxy accepts connections by TPROXY over IPv6 is called with mutual TLS', async () => {
      const { client, transparent } = machines();
      const url = `http://${vipOf(3, family)}/`;
      await eventually(async () => assert.equal(await outcome(client, transparent, url), '200 mtls'));
    });

    test('connections to unregistered addresses are passed on', async () => {
      const { client, outside } = machines();
      const { name, remote } = await echoOf(client, `http://${addressOf(outside, family)}:${UNBOUND_PORT}/`);
      assert.equal(name, outside.id);
      assert.equal(remote.replace('::ffff:', ''), family === 'ipv4' ? client.netns.address : client.netns.address6);
    });

    test('connections to a port of no service reach the application, from the unredirected address', async () => {
      const { outside, web, transparent } = machines();
      for (const to of [web, transparent]) {
        const { name, remote } = await echoOf(outside, `http://${addressOf(to, family)}:${UNBOUND_PORT}/`);
        assert.equal(name, to.id);
        assert.equal(remote.replace('::ffff:', ''), family === 'ipv4' ? '127.0.0.6' : '::6');
      }
    });

    test('a gateway accepts requests', async () => {
      const { outside, gateway, web } = machines();
      const url = `http://${addressOf(gateway, family)}:${GATEWAY_PORT}/`;
      await eventually(async () => assert.equal((await echoOf(outside, url)).name, web.id));
    });

    test("the agent's and Envoy's own ports answer", async () => {
      const { outside, web } = machines();
      for (const path of ['15021/healthz/ready', '15020/stats/prometheus', '15090/stats/prometheus']) {
        const url = `http://${addressOf(web, family)}:${path}`;
        await outside.netns.run('curl', '-sS', '--fail', '-o', '/dev/null', '-m', '20', url);
      }
    });
  });
}

test('where IPv6 is disabled, no listener is bound to it, and calls work', { skip }, async () => {
  const { old, web, outside, world } = machines();
  await eventually(async () => assert.equal(await outcome(old, web, `http://${vipOf(1, 'ipv4')}/`), '200 mtls'));
  assert.equal((await echoOf(outside, `http://${old.netns.address}:${UNBOUND_PORT}/`)).name, old.id);
  const listeners = (await old.agent?.admin('/listeners')) ?? '';
  assert.match(listeners, /virtualInbound::0\.0\.0\.0:15006/);
  assert.doesNotMatch(listeners, /\[/);
  assert.doesNotMatch(await world.metrics(), /^ctl_total_xds_rejects\S* [1-9]/m);
});

test('listeners of a machine of both families are logged and dumped with both addresses', { skip }, async () => {
  const listeners = (await machines().web.agent?.admin('/listeners')) ?? '';
  assert.match(listeners, /virtualInbound::0\.0\.0\.0:15006/);
  assert.match(listeners, /\[::\]:15006/);
});

describe('validation while the proxy runs', { skip }, () => {
  const FLAGS = ['-b', '*', '-i', '*', '--skip-rule-apply', '--run-validation', '--probe-timeout', '3s'];

  test('proves that the proxy takes connections in each family', async () => {
    for (const { netns } of [machines().web, machines().transparent]) {
      const text = await runCtlAgent(netns, 'mesh-iptables', ...FLAGS);
      for (const way of ['inbound ipv4', 'outbound ipv4', 'inbound ipv6', 'outbound ipv6'])
        assert.match(text, new RegExp(`${way}: the proxy accepts connections from \\S+ port 15002 to port 150`));
    }
  });

  test('fails where a family is redirected to a proxy that does not listen there', async () => {
    const { hidden, client } = machines();
    await eventually(async () =>
      assert.equal(await outcome(client, hidden, `http://${hidden.serviceAddress}/`), '200 mtls'),
    );
    await assert.rejects(runCtlAgent(hidden.netns, 'mesh-iptables', ...FLAGS), {
      code: 126,
      stderr:
        /^ctl-agent: redirection does not work: inbound ipv6, from \S+ port 15002 to port 15006: the proxy is running and does not listen there over ipv6\n$/,
    });
  });

  test('is not misled by another program at the probe port', async () => {
    const { web } = machines();
    await assert.rejects(runCtlAgent(web.netns, 'mesh-iptables', ...FLAGS, '--iptables-probe-port', '8080'), {
      stderr: /^ctl-agent: --iptables-probe-port: something listens at port 8080, so redirection cannot be tested\n$/,
    });
  });
});

test('the agent warns of an address of another family that is added later', { skip }, async () => {
  const { netns, agent } = machines().old;
  await netns.run('sh', '-ec', 'echo 0 > /proc/sys/net/ipv6/conf/all/disable_ipv6');
  await netns.run('ip', 'addr', 'add', `${netns.address6}/64`, 'dev', 'eth0', 'nodad');
  await eventually(() =>
    assert.match(agent?.output() ?? '', /warn\t.*has an IPv6 address now \(fd00:.*does not listen on IPv6/),
  );
});

test('without redirection, clients are served at the loopback addresses of both families', {
  skip: networkInterfaces().lo?.some(({ family }) => family === 'IPv6') === true ? false : 'there is no ::1 here',
}, async (t) => {
  const address = planMesh();
  const port = await freePort();
  const backend = await startEcho(t, { name: 'web', address: address(20) });
  const documents = [
    service('web', { ports: [{ name: 'http', port }] }),
    endpoints('web', [backend.address], [{ name: 'http', port: backend.port }]),
  ];
  const mesh = await startMesh(t, address, { files: { services: documents } });
  await mesh.startProxy({ name: 'client', address: address(10), moreAddresses: ['::1'], mode: 'delta' });
  for (const loopback of ['127.0.0.1', '::1']) {
    await eventually(async () => {
      assert.equal((await call({ address: loopback, port, host: 'web' })).by, 'web');
    });
  }
});
