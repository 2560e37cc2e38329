/** The webhooks of a running control plane, called as API servers call them. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { Agent } from 'node:https';
import { join } from 'node:path';
import { test } from 'node:test';
import { call, documentReview, podReview, review, VALID_DOCUMENT } from '../../src/webhooks/testing/webhook-client.ts';
import { discoveryPorts, eventually, startDiscovery, tempDir } from '../harness/index.ts';

const POD = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec: { containers: [{ name: 'app' }] } };

test('webhooks are answered under the certificate of the mesh, and counted', async (t) => {
  const [configDir, caDir, ports] = [await tempDir(t), await tempDir(t), await discoveryPorts()];
  const file = join(configDir, 'route.yaml');
  await writeFile(file, JSON.stringify(VALID_DOCUMENT));
  const discovery = await startDiscovery(t, { configDir, ports, env: { SELF_SIGNED_CA_DIR: caDir } });
  assert.ok(ports.https !== undefined);
  const ca = await readFile(join(caDir, 'root-cert.pem'), 'utf8');
  const agent = new Agent({ keepAlive: true });
  t.after(() => agent.destroy());
  const trusted = { ca, servername: 'meshd.mesh-system.svc', rejectUnauthorized: true, agent };
  const ask = (path: string, body: string) => call(ports.https ?? 0, path, { body, ...trusted });

  const ready = await call(ports.https, '/ready', { method: 'GET', ...trusted });
  assert.deepEqual([ready.status, ready.text], [200, 'ready\n']);
  const injected = JSON.parse((await ask('/inject', podReview(POD))).text).response;
  assert.equal(injected.patchType, 'JSONPatch');
  const proxyConfig = (name: string, namespace: string, spec: object) => ({
    ...{ apiVersion: 'networking.istio.io/v1beta1', kind: 'ProxyConfig', metadata: { name, namespace }, spec },
  });
  await writeFile(join(configDir, 'proxy-config.yaml'), JSON.stringify(proxyConfig('all', 'shop', { concurrency: 7 })));
  let injections = 1;
  await eventually(async () => {
    injections++;
    const { patch } = JSON.parse((await ask('/inject', podReview(POD))).text).response;
    assert.match(Buffer.from(patch, 'base64').toString(), /\\"concurrency\\":7/);
  });
  // Both have less effect than it seems: the author learns it here, from the log and from the debug pages.
  const selecting = proxyConfig('selecting', 'mesh-system', { selector: { matchLabels: { app: 'web' } } });
  const second = proxyConfig('second', 'shop', { concurrency: 8 });
  await writeFile(
    join(configDir, 'ineffective.yaml'),
    [selecting, second].map((each) => JSON.stringify(each)).join('\n---\n'),
  );
  const kind = { group: 'networking.istio.io', version: 'v1beta1', kind: 'ProxyConfig' };
  const request = { kind, namespace: 'mesh-system', name: 'selecting' };
  const { warnings } = JSON.parse((await ask('/validate', documentReview(selecting, request))).text).response;
  assert.match(String(warnings), /^spec\.selector: it selects Pods of the root namespace only/);
  await eventually(async () => {
    const { body } = await discovery.http('/debug/configz?kind=ProxyConfig');
    for (const shown of [body, discovery.output()]) {
      assert.match(shown, /spec\.selector.*it selects Pods of the root namespace only/s);
      assert.match(shown, /no effect, because the older ProxyConfig shop\/all is for all Pods of the namespace/);
    }
  });
  const host = { ...POD, spec: { ...POD.spec, hostNetwork: true } };
  assert.equal(JSON.parse((await ask('/inject', podReview(host))).text).response.patch, undefined);
  assert.equal(JSON.parse((await ask('/inject', podReview({ ...POD, spec: 7 }))).text).response.allowed, false);
  assert.equal(JSON.parse((await ask('/validate', documentReview(VALID_DOCUMENT))).text).response.allowed, true);
  const invalid = { ...VALID_DOCUMENT, spec: { hosts: 7 } };
  assert.equal(JSON.parse((await ask('/validate', documentReview(invalid))).text).response.allowed, false);
  const unknown = review({
    kind: { group: 'example.com', version: 'v1', kind: 'Thing' },
    object: { apiVersion: 'example.com/v1', kind: 'Thing' },
  });
  assert.equal(JSON.parse((await ask('/validate', unknown)).text).response.allowed, true);
  assert.equal((await ask('/validate', '{')).status, 400);

  const ofMesh = 'group="networking.mesh.io",resource="VirtualService"';
  for (const [sample, value] of [
    ['sidecar_injection_requests_total', injections + 2],
    ['sidecar_injection_success_total', injections],
    ['sidecar_injection_skip_total', 1],
    ['sidecar_injection_failure_total', 1],
    [`cfg_validation_passed{${ofMesh}}`, 1],
    ['cfg_validation_passed{group="other",resource="other"}', 1],
    [`cfg_validation_failed{${ofMesh}}`, 1],
    ['cfg_validation_http_error{status="400"}', 1],
  ] as const)
    assert.equal(await discovery.metric(sample), value, sample);
  await eventually(() => {
    assert.match(discovery.output(), /info\tvalidation\trefused VirtualService shop\/web: /);
    assert.match(discovery.output(), /error\tdefault\trefused Pod shop\b/);
  });
});

test('without --httpsAddr the webhooks are not served, and a taken address ends the start', async (t) => {
  const configDir = await tempDir(t);
  const without = await startDiscovery(t, { configDir, flags: ['--httpsAddr', ''] });
  assert.doesNotMatch(without.output(), /webhooks over TLS/);
  const flags = ['--httpsAddr', `127.0.0.1:${without.ports.http}`];
  const taken = await startDiscovery(t, { configDir: await tempDir(t), flags, waitReady: false });
  const { code } = await taken.exited;
  assert.notEqual(code, 0);
  await eventually(async () =>
    assert.match(taken.output(), /--httpsAddr: cannot listen on 127\.0\.0\.1:\d+ \(EADDRINUSE\)/),
  );
});
