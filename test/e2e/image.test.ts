/**
 * The images of the Dockerfile: a linter, and both programs running from only the files that it copies, on a read-only
 * file system, without root and without capabilities.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { chown, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { stringify } from 'yaml';
import { agentPorts, discoveryPorts, eventually, type Owner, request, tempDir } from '../harness/index.ts';
import { resource } from './support/config.ts';
import { assembleImage, buildFromContext, DOCKERFILE } from './support/image.ts';

const HADOLINT = process.env.HADOLINT_PATH ?? '';
const lint = existsSync(HADOLINT) ? false : 'needs hadolint, which `npm test` installs';
const root = process.getuid?.() === 0 ? false : 'needs root, to make mounts';
const init = existsSync('/usr/bin/tini-static') ? root : 'needs tini, which `npm test` installs';

test('a linter of Dockerfiles has no complaint', { skip: lint }, async () => {
  const { stdout } = await promisify(execFile)(HADOLINT, ['--no-color', DOCKERFILE]);
  assert.equal(stdout, '');
});

test('the Dockerfile has the Node.js and the Envoy of the tests', async () => {
  const read = (path: string) => readFile(join(import.meta.dirname, '../..', path), 'utf8');
  const [dockerfile, setup, manifest] = await Promise.all(['Dockerfile', 'tools/setup.mjs', 'package.json'].map(read));
  const { devDependencies } = JSON.parse(manifest ?? '') as { devDependencies: { node: string } };
  assert.equal(/^ARG NODE_IMAGE=node:([\d.]+)-/m.exec(dockerfile ?? '')?.[1], devDependencies.node);
  const envoy = /^const ENVOY_VERSION = '([\d.]+)';$/m.exec(setup ?? '')?.[1];
  assert.equal(/^ARG ENVOY_VERSION=([\d.]+)$/m.exec(dockerfile ?? '')?.[1], envoy);
});

/** A folder that only this user may write to. */
async function folderOf(owner: Owner, uid: number): Promise<string> {
  const folder = join(await tempDir(owner), 'folder');
  await mkdir(folder);
  await chown(folder, uid, uid);
  return folder;
}

/** A command whose child lives longer than it, in a group of its own. */
const LEAVES_AN_ORPHAN = `
  const child = 'setTimeout(() => require("fs").appendFileSync("/etc/mesh/proxy/orphans", "x"), 200)';
  require('child_process').spawn(process.execPath, ['-e', child], { detached: true, stdio: 'ignore' }).unref()`;

/** Processes that have ended below a process, and wait for their parent to read how. */
function zombiesBelow(pid: number): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    .split(' ')
    .filter((id) => id !== '');
  return children.reduce((sum, id) => {
    const isZombie = /\) Z /.test(readFileSync(`/proc/${id}/stat`, 'utf8'));
    return sum + (isZombie ? 1 : zombiesBelow(Number(id)));
  }, 0);
}

test('both images run without root on a read-only file system, mesh-iptables works, and the gateway is served', {
  skip: init,
}, async (t) => {
  const source = await buildFromContext(t);
  const discovery = await assembleImage(t, 'ctl-discovery', source);
  const agent = await assembleImage(t, 'ctl-agent', source);
  assert.deepEqual([discovery.uid, agent.uid], [65532, 1337]);

  const [config, state, issuer, proxy] = await Promise.all([
    folderOf(t, discovery.uid),
    folderOf(t, discovery.uid),
    folderOf(t, discovery.uid),
    folderOf(t, agent.uid),
  ]);
  const [ports, gateway] = await Promise.all([discoveryPorts(), agentPorts()]);
  const port = { number: (await discoveryPorts()).http, name: 'http', protocol: 'HTTP' };
  const server = { port, hosts: ['*'], bind: '127.0.0.1' };
  await writeFile(
    join(config, 'gateway.yaml'),
    [
      resource('Gateway', 'gateway', { selector: { app: 'gateway' }, servers: [server] }),
      resource('VirtualService', 'gateway', {
        hosts: ['*'],
        gateways: ['gateway'],
        http: [{ redirect: { uri: '/moved' } }],
      }),
    ]
      .map((document) => stringify(document))
      .join('---\n'),
  );

  // The init container of injected Pods, with the iptables of this machine instead of those of the base image.
  const redirected = await agent.start(t, {
    args: ['mesh-iptables', '-p', '15001', '-u', '1337', '-m', 'REDIRECT', '-i', '*', '-b', '*'],
    env: {},
    folders: {},
    changesNetwork: true,
  });
  assert.equal((await redirected.exited).code, 0, redirected.output());
  assert.match(redirected.output(), /-A OUTPUT -p tcp -j MESH_OUTPUT/);

  const folders = { '/config': config, '/var/lib/mesh': state, '/issuer': issuer };
  const token = await discovery.start(t, {
    args: ['issue-token', '--issuer-dir', '/issuer', '--namespace', 'default', '--service-account', 'gateway'],
    env: {},
    folders,
  });
  assert.equal((await token.exited).code, 0, token.output());
  const control = await discovery.start(t, {
    args: [
      ...['discovery', '--configDir', '/config', '--introspect_port', String(ports.introspection)],
      ...['--grpcAddr', `127.0.0.1:${ports.grpc}`, '--secureGRPCAddr', `127.0.0.1:${ports.secure}`],
      ...['--httpsAddr', '127.0.0.1:0'],
      ...['--httpAddr', `127.0.0.1:${ports.http}`, '--monitoringAddr', `127.0.0.1:${ports.monitoring}`],
    ],
    // A worker: its file and that of its package must be in the image.
    env: { CTL_GENERATE_WORKERS: '1', CTL_STATE_DIR: '/var/lib/mesh/state', LOCAL_TOKEN_ISSUER_DIR: '/issuer' },
    folders,
  });
  await eventually(async () => {
    control.assertRunning();
    assert.equal((await request({ port: ports.http, path: '/ready' })).status, 200);
  });

  const tokenFile = join(proxy, 'token');
  await writeFile(tokenFile, token.output());
  const running = await agent.start(t, {
    args: ['proxy', 'router'],
    env: {
      ENVOY_PATH: '',
      POD_NAME: 'gateway',
      POD_NAMESPACE: 'default',
      SERVICE_ACCOUNT: 'gateway',
      INSTANCE_IP: '127.0.0.1',
      MESH_METAJSON_LABELS: '{"app": "gateway"}',
      ENVOY_STATUS_PORT: String(gateway.readiness),
      ENVOY_PROMETHEUS_PORT: String(gateway.prometheus),
      CA_TOKEN_FILE: '/etc/mesh/proxy/token',
      CA_ROOT_CA: '/ca/ca/root-cert.pem',
      TERMINATION_DRAIN_DURATION_SECONDS: '1',
      PROXY_CONFIG: JSON.stringify({
        discoveryAddress: `127.0.0.1:${ports.secure}`,
        readinessProbe: { periodSeconds: 1, exec: { command: ['/usr/local/bin/node', '-e', LEAVES_AN_ORPHAN] } },
        concurrency: 1,
        proxyAdminPort: gateway.admin,
        statusPort: gateway.status,
      }),
    },
    folders: { '/etc/mesh/proxy': proxy, '/ca': state },
    ownProcesses: true,
  });
  await eventually(
    async () => {
      running.assertRunning();
      control.assertRunning();
      const { status, headers } = await request({ port: port.number, path: '/' });
      assert.deepEqual([status, headers.location], [301, `http://127.0.0.1:${port.number}/moved`]);
    },
    { timeoutMs: 30_000 },
  );
  const version = await request({ port: ports.http, path: '/version' });
  assert.match(version.body, /-abc123-Clean$/m);
  // Three processes have been left behind and have ended: no entry of them is left.
  await eventually(async () => assert.ok((await readFile(join(proxy, 'orphans'), 'utf8')).length >= 3));
  await eventually(() => assert.equal(zombiesBelow(running.pid), 0));
  assert.doesNotMatch(running.output(), /does not reap/);
  const quit = { port: gateway.status, path: '/quitquitquit', method: 'POST' };
  assert.equal((await request(quit)).status, 200);
  assert.deepEqual(await running.exited, { code: 0, signal: null });
  assert.deepEqual(await control.stop(), { code: 0, signal: null });
  for (const { output } of [running, control]) assert.doesNotMatch(output(), /\terror\t|\n {4}at /);
});
