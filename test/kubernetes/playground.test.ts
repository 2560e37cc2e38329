/** `npm run kubernetes`, used with kubectl and curl, and by the commands of docs/contributing.md. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { example, ROOT } from '../e2e/support/documents.ts';
import { type EchoReply, eventually, netnsUnavailable, request, startChild } from '../harness/index.ts';
import { helmUnavailable, kubernetesUnavailable } from '../harness/kubernetes/index.ts';

const REPOSITORY = join(import.meta.dirname, '../..');
const KUBECTL = process.env.KUBECTL_PATH ?? '';
const withoutKubectl = existsSync(KUBECTL) ? undefined : 'needs kubectl, which `npm test` installs';
const skip = kubernetesUnavailable() ?? helmUnavailable() ?? (await netnsUnavailable()) ?? withoutKubectl ?? false;

test('the playground serves the samples to kubectl and leaves nothing behind', { skip }, async (t) => {
  const program = join(REPOSITORY, 'tools/kubernetes/main.ts');
  // The playground is not a test: with this variable it would not stop in order.
  const env = { NODE_TEST_CONTEXT: undefined };
  const child = await startChild(t, { name: 'playground', command: process.execPath, args: [program], env });
  const printed = await eventually(
    () => {
      child.assertRunning();
      assert.match(child.output(), /Ctrl-C ends everything/);
      return child.output();
    },
    { timeoutMs: 60_000 },
  );
  const [, file = ''] = /export KUBECONFIG=(\S+)/.exec(printed) ?? [];
  const gateway = Number(/curl 127\.0\.0\.1:(\d+)\/hello/.exec(printed)?.[1]);
  const debug = Number(/http:\/\/127\.0\.0\.1:(\d+)\/debug/.exec(printed)?.[1]);
  const kubectl = async (...args: string[]) => {
    const options = { cwd: REPOSITORY, env: { ...process.env, KUBECONFIG: file } };
    return (await promisify(execFile)(KUBECTL, args, options)).stdout;
  };

  const pods = await kubectl('-n', 'demo', 'get', 'pods', '-o', 'jsonpath={.items[*].status.conditions[3].status}');
  assert.equal(pods, 'True True True True');
  const containers = '-o=jsonpath={range .items[*]}{.spec.initContainers[*].name}{";"}{end}';
  const proxies = await kubectl('-n', 'demo', 'get', 'pods', '--selector', 'app=hello', containers);
  assert.equal(proxies, 'mesh-init mesh-proxy;'.repeat(3));
  const slice = await kubectl(
    '-n',
    'demo',
    'get',
    'endpointslices',
    '-o',
    'jsonpath={.items[*].endpoints[*].addresses[0]}',
  );
  assert.equal(slice.split(' ').length, 4);
  assert.match(
    await kubectl('-n', 'demo', 'get', 'mesh-io'),
    /virtualservice\S+hello[\s\S]*peerauthentication\S+default/,
  );
  // As operators apply the definitions; kubectl refuses objects that are too large.
  const applied = await kubectl('apply', '-f', 'deploy/crds/istio');
  assert.match(applied, /virtualservices.networking.istio.io created/);
  const wrong = kubectl('-n', 'demo', 'patch', 'vs', 'hello', '--type=merge', '-p', '{"spec":{"http":[]}}');
  await assert.rejects(wrong, /expected at least one route under http, tls or tcp/);

  // From a Deployment to an answer through Envoy: controller manager, Pods, EndpointSlices, ctl-discovery, xDS.
  const version2 = { port: gateway, path: '/hello', headers: { 'x-version': 'v2' } };
  const answering = async () => {
    const answers = await Promise.all(Array.from({ length: 12 }, () => request(version2)));
    for (const { status, body } of answers) assert.equal(status, 200, body);
    return new Set(answers.map((answer) => (answer.json() as EchoReply).name)).size;
  };
  assert.equal(await answering(), 1);
  await kubectl('-n', 'demo', 'scale', 'deployment', 'hello-v2', '--replicas=2');
  await eventually(async () => assert.equal(await answering(), 2), { timeoutMs: 30_000 });
  const token = await kubectl('-n', 'mesh-system', 'create', 'token', 'ctl-discovery', '--audience', 'mesh-ca');
  const headers = { authorization: `Bearer ${token.trim()}` };
  const { body } = await request({ port: debug, path: '/debug/syncz', headers });
  assert.match(body, /"proxy": "gateway-[^"]*\.demo"/);

  // The commands of the document, with the line that it says to copy.
  const exports = /^ {2}(export KUBECONFIG=.* GATEWAY=.*)$/m.exec(printed)?.[1] ?? assert.fail(printed);
  const script = `${exports}\n${example('docs/contributing.md', 'the playground')}`;
  const { stdout } = await promisify(execFile)('sh', ['-ec', script], { cwd: ROOT, timeout: 300_000 });
  assert.match(stdout, /virtualservice\S*front configured[\s\S]*hello-v2 scaled/);
  const any = { port: gateway, path: '/hello' };
  await eventually(
    async () => {
      const answers = await Promise.all(Array.from({ length: 24 }, () => request(any)));
      const names = new Set(answers.map((answer) => (answer.json() as EchoReply).name));
      assert.equal(names.size, 3);
      for (const name of names) assert.match(name, /^hello-v2-/);
    },
    { timeoutMs: 30_000 },
  );

  await child.stop();
  assert.ok(!existsSync(file));
  await assert.rejects(kubectl('version', '--request-timeout=2s'));
});
