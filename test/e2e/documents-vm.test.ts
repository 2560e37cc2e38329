/** The quickstart of docs/agent.md (a workload on a VM), word for word, and the commands that other documents give for it. */
import assert from 'node:assert/strict';
import { chmod, copyFile, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import {
  createNetwork,
  envoyPath,
  eventually,
  type Namespace,
  netnsUnavailable,
  programFile,
} from '../harness/index.ts';
import { example } from './support/documents.ts';
import { type Machine, makeMachine, programsFolder, untilReady } from './support/machines.ts';

/** Puts the addresses and files of this test in place of those that the documents name. */
function adapt(control: Namespace, workload: Namespace): (text: string) => string {
  const words: Readonly<Record<string, string>> = {
    '192.0.2.1:': `${control.address}:`,
    '192.0.2.2': workload.address,
    '/opt/meshd/dist/ctl-discovery.js': programFile('ctl-discovery'),
    '/opt/meshd/dist/ctl-agent.js': programFile('ctl-agent'),
    '/usr/local/bin/envoy': envoyPath(),
    // They replace the shell, so that a signal to the shell ends them.
    'SELF_SIGNED_CA_DIR=mesh/ca': 'exec env SELF_SIGNED_CA_DIR=mesh/ca',
    'setpriv --reuid': 'exec setpriv --reuid',
  };
  return (text) => Object.entries(words).reduce((result, [from, to]) => result.replaceAll(from, to), text);
}

const APPLICATION = "require('http').createServer((_, answer) => answer.end('web')).listen(8080)";

test('the workload on a VM: token, root certificate, agent and redirection', {
  skip: await netnsUnavailable(),
}, async (t) => {
  const network = await createNetwork(t);
  const programs = await programsFolder(t);
  const control = await makeMachine(t, await network.addNamespace('control'), programs);
  const workload = await makeMachine(t, await network.addNamespace('machine'), programs);
  const adapted = adapt(control.netns, workload.netns);

  const policy = join(control.folder, 'mesh/config/web.yaml');
  await mkdir(dirname(policy), { recursive: true });
  const documents = adapted(example('docs/agent.md', 'mesh/config/web.yaml'));
  await writeFile(policy, documents);
  const discovery = await control.start(adapted(example('docs/agent.md', 'the control plane')));
  await eventually(async () => {
    discovery.assertRunning();
    await control.netns.run('curl', '-sS', '--fail', 'http://127.0.0.1:8080/ready');
  });
  await control.run(adapted(example('docs/agent.md', 'the token')));

  await workload.netns.start('the application', [process.execPath, '-e', APPLICATION]);
  await copyFile(join(control.folder, 'token'), join(workload.folder, 'token'));
  await copyFile(join(control.folder, 'mesh/ca/root-cert.pem'), join(workload.folder, 'root-cert.pem'));
  await chmod(workload.folder, 0o755);
  const startAgent = adapted(example('docs/agent.md', 'the workload'));
  const agent = await workload.start(startAgent);
  await untilReady(agent, control, workload);
  const certificates = await workload.netns.run('curl', '-sS', 'http://127.0.0.1:15000/certs');
  assert.match(certificates, /spiffe:\/\/cluster\.local\/ns\/shop\/sa\/web/);

  await t.test('the redirection is valid', async () => {
    await workload.run(adapted(example('docs/agent.md', 'validate the redirection')));
  });
  await t.test('the commands of an operator', () => askControlPlane(control));
  await t.test('in a folder that the user of the proxy cannot reach, one line says so', async () => {
    const closed = join(workload.folder, 'closed');
    await mkdir(join(closed, 'inner'), { recursive: true });
    await chmod(closed, 0o700);
    const refused = await workload.start(`cd closed/inner\n${startAgent}`);
    assert.equal((await refused.exited).code, 1);
    const line = `user 1337 has no search permission on ${closed}: start the agent in another folder, or set configPath `;
    assert.ok(
      refused
        .output()
        .includes(`ctl-agent: etc/mesh/proxy/envoy-rev0.json: Envoy cannot access this path, because ${line}`),
      refused.output(),
    );
  });
  await t.test('a restart needs no token', async () => {
    await workload.netns.run('curl', '-sS', '--fail', '-X', 'POST', 'http://127.0.0.1:15020/quitquitquit?now');
    await agent.exited;
    const expired = `e30.${Buffer.from('{"exp":1}').toString('base64url')}.c2ln`;
    await writeFile(join(workload.folder, 'token'), expired);
    await untilReady(await workload.start(startAgent), control, workload);
  });
  await t.test('STRICT refuses a caller without a certificate, PERMISSIVE accepts it', async () => {
    const url = `http://${workload.netns.address}:8080/`;
    const plain = () => control.netns.run('curl', '-sS', '--fail', '--max-time', '20', url);
    await assert.rejects(plain(), { code: 56 });
    await writeFile(policy, documents.replace('mode: STRICT', 'mode: PERMISSIVE'));
    await eventually(async () => assert.equal(await plain(), 'web'));
  });
  await t.test('the redirection is undone', async () => {
    await workload.run(adapted(example('docs/agent.md', 'the end')));
    assert.doesNotMatch(await workload.netns.run('iptables-save'), /MESH/);
  });
});

async function askControlPlane(control: Machine): Promise<void> {
  const inForce = await control.run(example('docs/configuration.md', 'list what is in force'));
  assert.match(inForce, /^shop +default +\S+web\.yaml:\d+$/m);
  assert.match(inForce, /serviceAccount: web/);
  const asked = await control.run(example('docs/operations.md', 'ask the control plane'));
  assert.match(asked, /^ready/m);
  assert.match(asked, /web\.shop/);
  assert.match(asked, /^ctl_proxy_convergence_time_count/m);
  assert.match(await control.run(example('docs/operations.md', 'set a log level')), /"output_level": "debug"/);
}
