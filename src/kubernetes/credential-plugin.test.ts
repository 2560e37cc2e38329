/** Credential plugins: real programs that print credentials, fail, or do not end. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { waitUntil } from '../core/testing/wait-until.ts';
import { CredentialPlugin } from './credential-plugin.ts';
import { readKubeconfig } from './kubeconfig.ts';
import { runPlugin } from './run-plugin.ts';

const V1 = 'client.authentication.k8s.io/v1';
const PEM = '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n';

let folder = '';
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'plugin-'));
});
after(() => rm(folder, { recursive: true }));

/** A program of the test's folder that counts its runs. */
async function script(name: string, body: string) {
  const [path, counter] = [join(folder, name), join(folder, `${name}.runs`)];
  await writeFile(path, `#!/bin/sh\necho run >> ${counter}\n${body}\n`);
  await chmod(path, 0o755);
  const runs = async () => (await readFile(counter, 'utf8').catch(() => '')).split('\n').length - 1;
  return { path, runs };
}

const prints = (status: object, apiVersion = V1): string =>
  `cat <<'END'\n${JSON.stringify({ apiVersion, kind: 'ExecCredential', status })}\nEND`;

/** A plugin with a clock of the test. */
function plugin(exec: object) {
  let now = Date.UTC(2026, 0, 1);
  const user = {
    name: 'me',
    value: { exec: { apiVersion: V1, ...exec } },
    file: join(folder, 'config'),
    path: 'users[0].user',
  };
  const cluster = {
    server: 'https://10.0.0.1:6443',
    serverName: undefined,
    ca: async () => PEM,
    extensions: undefined,
  };
  const credentials = CredentialPlugin.of(user, cluster, () => now);
  const pass = (ms: number): void => {
    now += ms;
  };
  return { credentials, pass };
}

describe('a credential plugin', () => {
  test('of a kubeconfig is run once for many requests, with its arguments and the cluster', async () => {
    const { path, runs } = await script(
      'token',
      `cat <<END\n${JSON.stringify({ apiVersion: V1, kind: 'ExecCredential', status: { token: '$1-$WHO' } })}\nEND\n` +
        `echo "$KUBERNETES_EXEC_INFO" > ${join(folder, 'info')}`,
    );
    const kubeconfig = join(folder, 'kubeconfig');
    const env = '[{name: WHO, value: me}]';
    const command = 'command: ./token, args: [hello], provideClusterInfo: true';
    const exec = `{apiVersion: ${V1}, ${command}, env: ${env}}`;
    await writeFile(
      kubeconfig,
      `current-context: a
contexts: [{name: a, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://10.0.0.1"}}]
users: [{name: u, user: {exec: ${exec}}}]
`,
    );
    const access = await readKubeconfig(kubeconfig);
    assert.deepEqual(await Promise.all([access.token(), access.token(), access.tls()]), ['hello-me', 'hello-me', {}]);
    assert.equal(await runs(), 1, path);
    const info: unknown = JSON.parse(await readFile(join(folder, 'info'), 'utf8'));
    assert.deepEqual(info, {
      apiVersion: V1,
      kind: 'ExecCredential',
      spec: { interactive: false, cluster: { server: 'https://10.0.0.1' } },
    });
  });

  test('gives a client certificate', async () => {
    const { path } = await script('certificate', prints({ clientCertificateData: PEM, clientKeyData: PEM }));
    const { credentials } = plugin({ command: path });
    assert.deepEqual(await credentials.certificate(), { cert: PEM, key: PEM });
    assert.equal(await credentials.token(), undefined);
  });

  test('is run again before its credentials expire, and these are used while it fails', async () => {
    const status = { token: 'one', expirationTimestamp: '2026-01-01T00:10:00Z' };
    const { path, runs } = await script('expiring', prints(status));
    const { credentials, pass } = plugin({ command: path });
    assert.equal(await credentials.token(), 'one');
    pass(8 * 60_000);
    assert.equal(await credentials.token(), 'one');
    assert.equal(await runs(), 1);
    await script('expiring', 'echo oops >&2; exit 3');
    pass(90_000);
    assert.equal(await credentials.token(), 'one');
    while ((await runs()) < 2) await pause(5);
    assert.equal(await credentials.token(), 'one');
    assert.equal(await runs(), 2);
    pass(60_000);
    await assert.rejects(credentials.token(), /users\[0\]|failed \(exit code 3\): oops/);
    await script('expiring', prints({ token: 'two' }));
    pass(60_000);
    assert.equal(await credentials.token(), 'two');
  });

  test('is run again once when the server refuses its credentials', async () => {
    const { path, runs } = await script('refused', prints({ token: 'one' }));
    const { credentials, pass } = plugin({ command: path });
    await credentials.token();
    for (let request = 0; request < 5; request++) {
      credentials.rejected();
      await credentials.token();
    }
    assert.equal(await runs(), 2);
    pass(30_000);
    credentials.rejected();
    await credentials.token();
    assert.equal(await runs(), 3);
  });

  const failures: readonly (readonly [what: string, body: string, message: RegExp])[] = [
    ['fails', 'echo first; echo "please log in" >&2; exit 1', /failed \(exit code 1\): please log in$/],
    ['prints no JSON', 'echo secret-token', /expected the plugin to print JSON$/],
    ['prints another version', prints({ token: 'x' }, 'client.authentication.k8s.io/v1beta1'), /an ExecCredential of/],
    ['prints no credential', prints({}), /expected the plugin to print status\.token or a client certificate/],
    [
      'prints a certificate without a key',
      prints({ clientCertificateData: PEM }),
      /clientCertificateData and clientKey/,
    ],
    [
      'prints what has expired',
      prints({ token: 'x', expirationTimestamp: '2020-01-01T00:00:00Z' }),
      /have not expired/,
    ],
    ['prints without an end', 'yes', /printed more than \d+ bytes/],
  ];
  for (const [what, body, message] of failures) {
    test(`that ${what} is reported in one line without its output`, async () => {
      const { path } = await script(what.replaceAll(' ', '-'), body);
      const { credentials } = plugin({ command: path });
      await assert.rejects(credentials.token(), (error: Error) => {
        assert.match(error.message, message);
        assert.doesNotMatch(error.message, /secret|\n/);
        return true;
      });
    });
  }

  test('that is not installed is reported by its name', async () => {
    await assert.rejects(plugin({ command: 'no-such-plugin' }).credentials.token(), /no-such-plugin is not installed/);
  });

  test('that does not end is ended, with what it has started', async () => {
    const pids = join(folder, 'pids');
    const { path } = await script('endless', `sleep 1000 &\necho $! > ${pids}\nwait`);
    const command = { program: path, args: [], env: {} };
    const run = assert.rejects(runPlugin(command, {}, 1000), /did not end within 1 s/);
    await waitUntil(() => existsSync(pids) && readFileSync(pids, 'utf8').endsWith('\n'));
    const pid = Number(await readFile(pids, 'utf8'));
    await run;
    await waitUntil(() => !isRunning(pid));
  });

  test('that leaves a program behind which keeps its output open is ended with that program', async () => {
    const pids = join(folder, 'left');
    const { path } = await script('leaving', `sleep 1000 &\necho $! > ${pids}`);
    await assert.rejects(runPlugin({ program: path, args: [], env: {} }, {}, 1000), /did not end within 1 s/);
    const pid = Number(await readFile(pids, 'utf8'));
    await waitUntil(() => !isRunning(pid));
  });

  test('that hangs while its last credentials are valid holds no request up', async () => {
    const status = { token: 'one', expirationTimestamp: '2026-01-01T00:10:00Z' };
    const { path, runs } = await script('hanging', prints(status));
    const { credentials, pass } = plugin({ command: path });
    assert.equal(await credentials.token(), 'one');
    const go = join(folder, 'go');
    await script('hanging', `while [ ! -e ${go} ]; do sleep 0.05; done\n${prints({ token: 'two' })}`);
    pass(9.5 * 60_000);
    assert.equal(await credentials.token(), 'one');
    assert.equal(await credentials.token(), 'one');
    await writeFile(go, '');
    while ((await credentials.token()) !== 'two') await pause(5);
    assert.equal(await runs(), 2);
  });
});

/** A process that nobody has waited for yet counts as ended. */
function isRunning(pid: number): boolean {
  const file = `/proc/${pid}/stat`;
  return existsSync(file) && !/\) Z /.test(readFileSync(file, 'utf8'));
}
