/**
 * A real Envoy on demand behind the agent's xDS proxy: without the control plane, what it uses works, also after a
 * restart, and unknown hosts fail soon and say why, until the control plane answers.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually, request, startAgent, startEcho, tempDir } from '../harness/index.ts';
import { endpoints, resource, service } from './support/config.ts';
import { planMesh, sidecar, startMesh } from './support/mesh.ts';
import { suiteOwner } from './support/suite.ts';

const PORT = 7493;
const PORTS = [{ name: 'http', port: PORT }];
const WAIT = { timeoutMs: 30_000 };
const owner = suiteOwner();
const address = planMesh();

async function setUp() {
  await startEcho(owner, { name: 'a', address: address(20), port: PORT });
  const names = ['used', 'narrow', 'slow', 'first', 'second'];
  const only = { match: [{ uri: { prefix: '/here' } }], route: [{ destination: { host: 'narrow' } }] };
  const client = { address: address(10), egress: [{ number: PORT, protocol: 'HTTP' }] };
  const mesh = await startMesh(owner, address, {
    files: {
      services: names.flatMap((name, at) => [
        service(name, { clusterIP: `10.96.0.${at + 1}`, ports: PORTS }),
        endpoints(name, [address(20)], PORTS),
      ]),
      narrow: [resource('VirtualService', 'narrow', { hosts: ['narrow'], http: [only] })],
      client: [sidecar('client', client)],
    },
  });
  const folder = await tempDir(owner);
  const agent = await startAgent(owner, {
    name: 'client',
    address: address(10),
    discoveryAddress: `127.0.0.1:${mesh.discovery().ports.grpc}`,
    proxyConfig: { controlPlaneAuthPolicy: 'NONE', configPath: folder },
    env: {
      XDS_LOCAL: join(folder, 'XDS'),
      XDS_SAVE: join(folder, 'snapshot'),
      XDS_HOST_TIMEOUT: '300ms',
      MESH_DELTA_XDS: 'true',
      MESH_META_SIDECAR_CONFIGURATION: 'on-demand',
    },
  });
  const send = (host: string, path = '/') => request({ address: address(10), port: PORT, host, path });
  const isServed = (host: string) => eventually(async () => assert.equal((await send(host)).status, 200), WAIT);
  const isUnavailable = async (host: string) => {
    const { status, body } = await send(host);
    assert.equal(status, 503);
    assert.match(body, new RegExp(`^${host}: the control plane did not answer in time`));
  };
  return { mesh, agent, send, isServed, isUnavailable };
}

test('unknown hosts fail soon while the control plane is away, and work when it answers', async () => {
  const { mesh, agent, send, isServed, isUnavailable } = await setUp();
  await isServed('used');
  // On a crowded machine the first answer may come after the time limit.
  await eventually(async () => assert.equal((await send('narrow', '/here')).status, 200), WAIT);

  process.kill(mesh.discovery().pid, 'SIGSTOP');
  await isUnavailable('slow');
  process.kill(mesh.discovery().pid, 'SIGCONT');
  await isServed('slow');

  await mesh.discovery().kill();
  await isUnavailable('first');
  await isUnavailable('first');
  await isServed('used');
  // Envoy asks again for a host that it has, because no route matches.
  assert.deepEqual((await send('narrow', '/elsewhere')).status, 404);
  await eventually(() =>
    assert.match(agent.output(), /warn.*has not answered within 300 ms: HTTP 503 .*first=\d+\/first/),
  );

  const envoy = [...agent.output().matchAll(/Envoy has started\t.*?\bpid=(\d+)/g)].at(-1)?.[1];
  process.kill(Number(envoy), 'SIGKILL');
  await isServed('used');
  assert.equal((await send('narrow', '/here')).status, 200);
  await isServed('slow');
  await isUnavailable('second');
  const { body } = await agent.http('status', '/stats/prometheus');
  assert.match(body, /^xds_proxy_unavailable_hosts_total [3-9]/m);

  await mesh.restart();
  await isServed('second');
  await isServed('first');
  await isServed('used');
  assert.doesNotMatch(agent.output(), /the proxy rejects a response/);
});
