/**
 * The redirection and its validation as injection asks for them, in network namespaces with real iptables: the
 * arguments are those of the init containers of injected Pods whose proxy has another user than the usual one.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createInjector } from '../../src/webhooks/injection/index.ts';
import { SETTINGS } from '../../src/webhooks/injection/testing/settings.ts';
import {
  createNetwork,
  type EchoReply,
  type Namespace,
  netnsUnavailable,
  programFile,
  runCtlAgent,
  startEchoIn,
} from '../harness/index.ts';
import { type Mode, startPassingProxy } from './support/passing-proxy.ts';

const skip = (await netnsUnavailable()) ?? false;

const [USER, GROUP] = [1234, 4321];
const APP_PORT = 8080;

interface InitContainer {
  readonly name: string;
  readonly args: readonly string[];
  readonly securityContext: { readonly runAsUser: number; readonly runAsGroup: number };
}

/** The first init container of a Pod whose proxy has a user and a group. */
function initContainer(mode: Mode, cni: boolean): InitContainer {
  const values = { text: JSON.stringify({ global: { cni } }), origin: 'values' };
  const result = createInjector({ ...SETTINGS, values }).inject(
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { annotations: { 'sidecar.mesh.io/interceptionMode': mode } },
      spec: {
        containers: [
          { name: 'app', image: 'app' },
          { name: 'mesh-proxy', image: 'auto', securityContext: { runAsUser: USER, runAsGroup: GROUP } },
        ],
      },
    },
    'shop',
  );
  assert.ok(result.kind === 'injected');
  const [first] = (result.pod.spec as { readonly initContainers: readonly InitContainer[] }).initContainers;
  return first ?? assert.fail('no init container');
}

const as = (user: number, group: number) => ['setpriv', `--reuid=${user}`, `--regid=${group}`, '--clear-groups'];

/** Runs the validation as the kubelet does; gives the exit code and what it printed. */
async function validate(namespace: Namespace, { args, securityContext }: InitContainer) {
  const { runAsUser, runAsGroup } = securityContext;
  const command = [process.execPath, programFile('ctl-agent'), ...args, '--probe-timeout', '3s'];
  try {
    return { code: 0, text: await namespace.run(...as(runAsUser, runAsGroup), ...command) };
  } catch (error) {
    const { code, stderr } = error as { readonly code: number; readonly stderr: string };
    return { code, text: stderr };
  }
}

for (const mode of ['REDIRECT', 'TPROXY'] as const) {
  test(`connections of a proxy with another user or group are not redirected (${mode})`, { skip }, async (t) => {
    const network = await createNetwork(t);
    const [client, server] = [await network.addNamespace('client'), await network.addNamespace('server')];
    await startEchoIn(t, server, { name: 'app', protocol: 'http', address: '::', port: APP_PORT });
    const { name, args } = initContainer(mode, false);
    assert.equal(name, 'mesh-init');
    await runCtlAgent(client, ...args);
    // With TPROXY the proxy is root, with the group of the Pod.
    const user = mode === 'TPROXY' ? 0 : USER;
    for (const [family, address] of [
      [4, server.address],
      [6, `[${server.address6}]`],
    ] as const) {
      const url = `http://${address}:${APP_PORT}/`;
      const text = await client.run(...as(user, GROUP), 'curl', '-sS', '--fail', '--max-time', '20', url);
      assert.equal((JSON.parse(text) as EchoReply).name, 'app', `IPv${family}`);
      await assert.rejects(client.run('curl', '-sS', '--max-time', '1', url), 'an application is redirected');
    }
    if (mode === 'TPROXY') return;
    await startPassingProxy(t, { namespace: client, name: 'client', mode, uid: USER });
    const text = await client.run('curl', '-sS', '--fail', '--max-time', '20', `http://${server.address}:${APP_PORT}/`);
    assert.equal((JSON.parse(text) as EchoReply).name, 'app');
  });

  test(`the validation beside a CNI plugin fails with 126 until traffic is redirected (${mode})`, {
    skip,
  }, async (t) => {
    const network = await createNetwork(t);
    const namespace = await network.addNamespace('pod');
    const validation = initContainer(mode, true);
    assert.equal(validation.name, 'mesh-validation');
    const before = await validate(namespace, validation);
    assert.equal(before.code, 126);
    assert.match(
      before.text,
      /^ctl-agent: redirection does not work: inbound ipv4, from \S+ port 15002 to port 15006: /,
    );
    if (mode === 'REDIRECT') {
      // As by a plugin that does not know the user of this Pod. With TPROXY that is always root.
      await runCtlAgent(namespace, 'mesh-iptables', '-b', '*', '-i', '*');
      assert.equal((await validate(namespace, validation)).code, 126);
    }
    await runCtlAgent(namespace, ...initContainer(mode, false).args);
    const after = await validate(namespace, validation);
    assert.equal(after.code, 0, after.text);
    assert.match(after.text, /inbound ipv4: connections go from \S+ port 15002 to port 15006/);
  });
}

test('a validation that can look at nothing fails with 126', { skip }, async (t) => {
  const network = await createNetwork(t);
  const namespace = await network.addNamespace('pod');
  const { args } = initContainer('REDIRECT', true);
  await runCtlAgent(namespace, ...initContainer('REDIRECT', false).args);
  await namespace.run('ip', 'address', 'flush', 'dev', 'eth0');
  const lost = await validate(namespace, { name: '', args, securityContext: { runAsUser: USER, runAsGroup: GROUP } });
  assert.equal(lost.code, 126);
  assert.match(lost.text, /^ctl-agent: redirection cannot be tested: inbound ipv4: /);
});
