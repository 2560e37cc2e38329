/** `npm run kubernetes`, used with kubectl. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { eventually, netnsUnavailable, startChild } from '../harness/index.ts';
import { kubernetesUnavailable } from '../harness/kubernetes/index.ts';

const REPOSITORY = join(import.meta.dirname, '../..');
const KUBECTL = process.env.KUBECTL_PATH ?? '';
const withoutKubectl = existsSync(KUBECTL) ? undefined : 'needs kubectl, which `npm test` installs';
const skip = kubernetesUnavailable() ?? (await netnsUnavailable()) ?? withoutKubectl ?? false;

test('the playground serves the samples to kubectl and leaves nothing behind', { skip }, async (t) => {
  const program = join(REPOSITORY, 'src/dev/kubernetes/main.ts');
  // The playground is not a test: with this variable it would not stop in order.
  const env = { NODE_TEST_CONTEXT: undefined };
  const child = await startChild(t, { name: 'playground', command: process.execPath, args: [program], env });
  const file = await eventually(
    () => {
      child.assertRunning();
      const [, path] = /export KUBECONFIG=(\S+)/.exec(child.output()) ?? [];
      assert.ok(path !== undefined, child.output());
      return path;
    },
    { timeoutMs: 60_000 },
  );
  const kubectl = async (...args: string[]) => {
    const options = { cwd: REPOSITORY, env: { ...process.env, KUBECONFIG: file } };
    return (await promisify(execFile)(KUBECTL, args, options)).stdout;
  };

  const pods = await kubectl('-n', 'demo', 'get', 'pods', '-o', 'jsonpath={.items[*].status.conditions[3].status}');
  assert.equal(pods, 'True True True');
  const slice = await kubectl(
    '-n',
    'demo',
    'get',
    'endpointslices',
    '-o',
    'jsonpath={.items[*].endpoints[*].addresses[0]}',
  );
  assert.equal(slice.split(' ').length, 3);
  assert.match(
    await kubectl('-n', 'demo', 'get', 'mesh-io'),
    /virtualservice\S+hello[\s\S]*peerauthentication\S+default/,
  );
  // As operators apply the definitions; kubectl refuses objects that are too large.
  const applied = await kubectl('apply', '-f', 'deploy/crds/istio');
  assert.match(applied, /virtualservices.networking.istio.io created/);
  const wrong = kubectl('-n', 'demo', 'patch', 'vs', 'hello', '--type=merge', '-p', '{"spec":{"http":[]}}');
  await assert.rejects(wrong, /expected at least one route under http, tls or tcp/);

  await child.stop();
  assert.ok(!existsSync(file));
  await assert.rejects(kubectl('version', '--request-timeout=2s'));
});
