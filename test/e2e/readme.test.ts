/** The README's bootstrap and its workload on a VM, as they stand there: what a reader copies has to work. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { startMesh } from '../../src/dev/demo/mesh.ts';
import { freePlaces } from '../../src/dev/demo/ports.ts';
import { copySamples } from '../../src/dev/demo/samples.ts';
import { readState } from '../../src/dev/demo/state.ts';
import {
  type Child,
  createNetwork,
  envoyPath,
  eventually,
  freePort,
  type Namespace,
  netnsUnavailable,
  type Owner,
  request,
  startChild,
  tempDir,
} from '../harness/index.ts';

const ROOT = join(import.meta.dirname, '../..');
const readme = await readFile(join(ROOT, 'README.md'), 'utf8');

/** Ports in the README's text: of ctl-discovery, and of Envoy's admin page. */
const ADS_PORT = 15_010;
const ADMIN_PORT = 15_000;

function bootstrapOfReadme(adsPort: number, adminPort: number): string {
  const text = /```yaml\n(node:\n[\s\S]*?)```/.exec(readme)?.[1] ?? assert.fail('the README has no bootstrap');
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

  const bootstrap = bootstrapOfReadme(places.grpc.port, await freePort());
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

test('the ingress gateway: a port with HTTPS, opened while the demo mesh runs', async (context) => {
  const { base, places } = await freePlaces(context);
  const configDir = await copySamples(context, base);
  const signal = new AbortController().signal;
  await startMesh(context, { places, configDir, signal, progress: () => {} });
  const words = { '/tmp/shop': join(await tempDir(context), 'shop'), 18443: String(await freePort()) };
  const run = async (title: string): Promise<string> =>
    (await promisify(execFile)('sh', ['-ec', blockOf(title, words)])).stdout;
  await run('a certificate');
  await writeFile(join(configDir, 'https.yaml'), blockOf('samples/demo/https.yaml', words));
  const { app } = await eventually(async () => JSON.parse(await run('a call')) as { readonly app: unknown });
  assert.equal(app, 'shop');
});

test("end users' tokens: a key and a rule of one's own while the demo mesh runs", async (context) => {
  const { base, places } = await freePlaces(context);
  const configDir = await copySamples(context, base);
  const signal = new AbortController().signal;
  await startMesh(context, { places, configDir, signal, progress: () => {} });
  const key = join(await tempDir(context), 'key.pem');
  const words = { '/tmp/key.pem': key, 'samples/demo': configDir, 18080: String(places.gateway.port) };
  const run = async (title: string): Promise<string> =>
    (await promisify(execFile)('sh', ['-ec', blockOf(title, words)], { cwd: ROOT })).stdout;
  await run('a key and its rule');
  await eventually(() => run('a call with a token'));
  // Not for its lack of a rule: a token of another issuer is refused.
  const strange = blockOf('a call with a token', { ...words, '--iss me': '--iss nobody' });
  await assert.rejects(promisify(execFile)('sh', ['-ec', strange], { cwd: ROOT }), { code: 22 });
});

/** A block of the README, by its first line, which is a comment; the words of the machine in place of the README's. */
function blockOf(title: string, words: Readonly<Record<string, string>>): string {
  const found = [...readme.matchAll(/```(?:sh|yaml)\n# (.*)\n([\s\S]*?)```/g)].find(([, first]) => first === title);
  const text = found?.[2] ?? assert.fail(`the README has no block "# ${title}"`);
  return Object.entries(words).reduce((result, [from, to]) => result.replaceAll(from, to), text);
}

/** Runs a block in a shell inside, with `node` and the folder that the README supposes. */
function shell(owner: Owner, netns: Namespace, cwd: string, name: string, script: string): Promise<Child> {
  const [command = '', ...args] = netns.command(['sh', '-ec', script]);
  const env = { PATH: [dirname(process.execPath), process.env.PATH].join(delimiter) };
  return startChild(owner, { name, command, args, cwd, env });
}

async function toItsEnd(child: Child): Promise<void> {
  assert.equal((await child.exited).code, 0, child.output());
}

test('the workload on a VM: token, root certificate, agent and redirection', {
  skip: await netnsUnavailable(),
}, async (t) => {
  const network = await createNetwork(t);
  const [control, machine] = [await network.addNamespace('control'), await network.addNamespace('machine')];
  const words = {
    '192.0.2.1:': `${control.address}:`,
    '192.0.2.2': machine.address,
    // From its sources, which need no build.
    '/opt/meshd/dist/ctl-discovery.js': join(ROOT, 'src/ctl-discovery.ts'),
    '/opt/meshd/dist/ctl-agent.js': join(ROOT, 'src/ctl-agent.ts'),
    '/usr/local/bin/envoy': envoyPath(),
    // In place of the shell, so that what ends the shell ends them.
    'SELF_SIGNED_CA_DIR=mesh/ca': 'exec env SELF_SIGNED_CA_DIR=mesh/ca',
    'setpriv --reuid': 'exec setpriv --reuid',
  };
  const [there, here] = [await tempDir(t), await tempDir(t)];
  const policy = join(there, 'mesh/config/web.yaml');
  await mkdir(dirname(policy), { recursive: true });
  const documents = blockOf('mesh/config/web.yaml', words);
  await writeFile(policy, documents);
  const discovery = await shell(t, control, there, 'control plane', blockOf('the control plane', words));
  await eventually(async () => {
    discovery.assertRunning();
    await control.run('curl', '-sS', '--fail', 'http://127.0.0.1:8080/ready');
  });
  await toItsEnd(await shell(t, control, there, 'issue-token', blockOf('the token', words)));

  const application = "require('http').createServer((_, answer) => answer.end('web')).listen(8080)";
  await machine.start('the application', [process.execPath, '-e', application]);
  await copyFile(join(there, 'token'), join(here, 'token'));
  await copyFile(join(there, 'mesh/ca/root-cert.pem'), join(here, 'root-cert.pem'));
  await chmod(here, 0o755);
  const agent = await shell(t, machine, here, 'workload', blockOf('the workload', words));
  const ready = (child: Child) =>
    eventually(
      async () => {
        child.assertRunning();
        await control.run('curl', '-sS', '--fail', `http://${machine.address}:15021/healthz/ready`);
      },
      { timeoutMs: 30_000 },
    );
  await ready(agent);
  assert.match(
    await machine.run('curl', '-sS', 'http://127.0.0.1:15000/certs'),
    /spiffe:\/\/cluster\.local\/ns\/shop\/sa\/web/,
  );

  // Its token has ended meanwhile: a restart goes on with the certificate that was kept.
  await machine.run('curl', '-sS', '--fail', '-X', 'POST', 'http://127.0.0.1:15020/quitquitquit?now');
  await agent.exited;
  await writeFile(join(here, 'token'), `e30.${Buffer.from('{"exp":1}').toString('base64url')}.c2ln`);
  const restarted = await shell(t, machine, here, 'workload again', blockOf('the workload', words));
  await ready(restarted);

  // The caller has no certificate: STRICT refuses it, PERMISSIVE does not.
  const plain = () => control.run('curl', '-sS', '--fail', '--max-time', '5', `http://${machine.address}:8080/`);
  await assert.rejects(plain(), { code: 56 });
  await writeFile(policy, documents.replace('mode: STRICT', 'mode: PERMISSIVE'));
  await eventually(async () => assert.equal(await plain(), 'web'));

  await toItsEnd(await shell(t, machine, here, 'end', blockOf('the end', words)));
  assert.doesNotMatch(await machine.run('iptables-save'), /MESH/);
});
