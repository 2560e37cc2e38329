/** The README's bootstrap, as it stands there, against the demo mesh: what a reader copies has to work. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { startMesh } from '../../src/dev/demo/mesh.ts';
import { freePlaces } from '../../src/dev/demo/ports.ts';
import { copySamples } from '../../src/dev/demo/samples.ts';
import { readState } from '../../src/dev/demo/state.ts';
import { envoyPath, eventually, freePort, request, startChild, tempDir } from '../harness/index.ts';

/** Ports in the README's text: of ctl-discovery, and of Envoy's admin page. */
const ADS_PORT = 15_010;
const ADMIN_PORT = 15_000;

async function bootstrapOfReadme(adsPort: number, adminPort: number): Promise<string> {
  const readme = await readFile(join(import.meta.dirname, '../../README.md'), 'utf8');
  const text = /```yaml\n([\s\S]*?)```/.exec(readme)?.[1] ?? assert.fail('the README has no bootstrap');
  for (const port of [ADS_PORT, ADMIN_PORT]) assert.equal(text.split(`port_value: ${port} }`).length, 2, String(port));
  return text
    .replace(`port_value: ${ADS_PORT} }`, `port_value: ${adsPort} }`)
    .replace(`port_value: ${ADMIN_PORT} }`, `port_value: ${adminPort} }`);
}

test('an Envoy with the bootstrap of the README joins the demo mesh', async (context) => {
  const { base, places } = await freePlaces(context);
  const configDir = await copySamples(context, base);
  const signal = new AbortController().signal;
  const mesh = await startMesh(context, { places, configDir, signal, progress: () => {} });

  const bootstrap = await bootstrapOfReadme(places.grpc.port, await freePort());
  const file = join(await tempDir(context), 'bootstrap.yaml');
  await writeFile(file, bootstrap);
  const envoy = await startChild(context, {
    name: 'envoy of the README',
    command: envoyPath(),
    args: ['-c', file, '--use-dynamic-base-id', '--concurrency', '1'],
  });

  // The port of shop's Sidecar, here on the loopback address that a proxy without a Sidecar binds.
  const call = { port: places.shopOutbound.port, host: 'hello' };
  const answer = await eventually(async () => {
    envoy.assertRunning();
    const { status, json } = await request(call);
    assert.equal(status, 200);
    return json();
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
});
