/** Examples of the documents that a reader runs while the demo runs: what is copied has to work. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { type DemoMesh, startMesh } from '../../tools/demo/mesh.ts';
import { freePlaces } from '../../tools/demo/ports.ts';
import { copySamples } from '../../tools/demo/samples.ts';
import { readState } from '../../tools/demo/state.ts';
import { envoyPath, eventually, freePort, startChild, tempDir } from '../harness/index.ts';
import { example, ROOT } from './support/documents.ts';

/** Runs commands; resolves with what they print. */
async function shell(script: string, cwd = ROOT): Promise<string> {
  return (await promisify(execFile)('sh', ['-ec', script], { cwd })).stdout;
}

test('examples beside a running demo', async (context) => {
  const { base, places } = await freePlaces(context);
  const configDir = await copySamples(context, base);
  const signal = new AbortController().signal;
  const mesh = await startMesh(context, { places, configDir, signal, progress: () => {} });
  const demo: Demo = { mesh, configDir, gatewayPort: places.gateway.port };

  await context.test('an Envoy with the bootstrap of the documents joins the mesh', (t) =>
    joinWithOwnEnvoy(t, demo, { grpc: places.grpc.port, outbound: places.shopOutbound.port }),
  );
  await context.test('a Gateway opens a port with HTTPS', (t) => openHttps(t, demo));
  await context.test("a key of one's own and its rule: tokens are accepted", (t) => acceptOwnTokens(t, demo));
});

interface Demo {
  readonly mesh: DemoMesh;
  /** The copy of `samples/demo` that this demo follows. */
  readonly configDir: string;
  readonly gatewayPort: number;
}

async function joinWithOwnEnvoy(t: TestContext, { mesh }: Demo, ports: { grpc: number; outbound: number }) {
  const folder = await tempDir(t);
  const bootstrap = example('docs/bring-your-own-envoy.md', 'bootstrap.yaml', {
    'port_value: 15010': `port_value: ${ports.grpc}`,
    'port_value: 15000': `port_value: ${await freePort()}`,
  });
  await writeFile(join(folder, 'bootstrap.yaml'), bootstrap);
  const command = example('docs/bring-your-own-envoy.md', 'an Envoy of your own', {
    '.cache/envoy-1.40.0/envoy/_bin/envoy': `exec ${envoyPath()}`,
  });
  const envoy = await startChild(t, { name: "a reader's Envoy", command: 'sh', args: ['-ec', command], cwd: folder });

  // The port of shop's Sidecar, here on the loopback address that a proxy without a Sidecar binds.
  const call = example('docs/bring-your-own-envoy.md', 'a call through your Envoy', { 18082: String(ports.outbound) });
  const answer = await eventually(async () => {
    envoy.assertRunning();
    return JSON.parse(await shell(call)) as unknown;
  });
  assert.deepEqual(answer, { app: 'hello-v1', path: '/', host: 'hello' });

  const { id } = (parse(bootstrap) as { node: { id: string } }).node;
  const shown = await eventually(async () => {
    const state = await readState(mesh);
    const proxy = state.proxies.find(({ workload }) => workload === id.split('~')[2]);
    assert.equal(proxy?.sync, 'synced');
    return proxy;
  });
  assert.equal(shown?.protocol, 'delta');
}

async function openHttps(t: TestContext, { configDir }: Demo) {
  const files = { '/tmp/shop': join(await tempDir(t), 'shop') };
  const port = { 18443: String(await freePort()) };
  await shell(example('docs/gateways.md', 'a certificate', files));
  const documents = example('docs/gateways.md', 'samples/demo/https.yaml', { ...files, ...port });
  await writeFile(join(configDir, 'https.yaml'), documents);
  const call = example('docs/gateways.md', 'a call', port);
  const { app } = await eventually(async () => JSON.parse(await shell(call)) as { readonly app: unknown });
  assert.equal(app, 'shop');
}

async function acceptOwnTokens(t: TestContext, { configDir, gatewayPort }: Demo) {
  const key = { '/tmp/key.pem': join(await tempDir(t), 'key.pem') };
  await shell(example('docs/authentication.md', 'a key and its rule', { ...key, 'samples/demo': configDir }));
  const call = example('docs/authentication.md', 'a call with a token', { ...key, 18080: String(gatewayPort) });
  await eventually(() => shell(call));
  // Accepted because of the rule: a token of another issuer is refused.
  await assert.rejects(shell(call.replace('--iss me', '--iss nobody')), { code: 22 });
}
