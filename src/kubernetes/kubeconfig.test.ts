/** Kubeconfig files and service accounts: what is read of them, and what the message says where they cannot be used. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { CtlError } from '../core/errors.ts';
import { inClusterAccess } from './in-cluster.ts';
import { readKubeconfig } from './kubeconfig.ts';

const PEM = '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n';
const DATA = Buffer.from(PEM).toString('base64');

let folder = '';

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'kubeconfig-'));
});
after(() => rm(folder, { recursive: true }));

async function write(name: string, text: string): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, text);
  return path;
}

const config = (cluster: string, user: string): string => `
apiVersion: v1
kind: Config
current-context: east
contexts:
- name: east
  context: {cluster: one, user: me, namespace: shop}
- name: west
  context: {cluster: two, user: me}
clusters:
- name: one
  cluster: {${cluster}}
users:
- name: me
  user: {${user}}
`;

const SERVER = 'server: "https://10.0.0.1:6443"';

const EXEC = 'exec: {command: x, apiVersion: client.authentication.k8s.io/v1';

async function problemOf(read: Promise<unknown>): Promise<string> {
  try {
    await read;
  } catch (error) {
    assert.ok(error instanceof CtlError, String(error));
    return error.oneLine();
  }
  throw new Error('expected a problem');
}

describe('a kubeconfig', () => {
  test('gives server, authority, client certificate and namespace of the current context', async () => {
    await write('ca.pem', PEM);
    const user = `client-certificate-data: ${DATA}, client-key-data: ${DATA}`;
    const path = await write('full', config(`${SERVER}, certificate-authority: ca.pem, tls-server-name: api`, user));
    const access = await readKubeconfig(path);
    assert.equal(access.server.href, 'https://10.0.0.1:6443/');
    assert.equal(access.namespace, 'shop');
    assert.equal(access.serverName, 'api');
    assert.deepEqual(await access.tls(), { ca: PEM, cert: PEM, key: PEM });
    assert.equal(await access.token(), undefined);
  });

  test('has its token file read again for each request', async () => {
    const token = await write('token', 'first\n');
    const access = await readKubeconfig(await write('token-config', config(SERVER, 'tokenFile: token')));
    assert.equal(await access.token(), 'first');
    await writeFile(token, 'second\n');
    assert.equal(await access.token(), 'second');
    await writeFile(token, '');
    assert.match(await problemOf(access.token()), /token: expected a token/);
  });

  test('of several files is merged; the first entry of a name is used', async () => {
    const first = await write('first', config(SERVER, 'token: one').replace('current-context: east', ''));
    const second = await write('second', config('server: "https://10.0.0.2"', 'token: two'));
    const access = await readKubeconfig(`${first}:${second}`);
    assert.equal(access.server.host, '10.0.0.1:6443');
    assert.equal(await access.token(), 'one');
  });

  const refused: readonly (readonly [what: string, text: string, message: RegExp])[] = [
    [
      'skips the check of the server',
      config(`${SERVER}, insecure-skip-tls-verify: true`, ''),
      /clusters\[0\]\.cluster\.insecure-skip-tls-verify: expected certificate-authority/,
    ],
    ['uses plain HTTP', config('server: "http://10.0.0.1"', ''), /clusters\[0\]\.cluster\.server: expected https/],
    ['has no server', config('', ''), /clusters\[0\]\.cluster\.server: expected a URL/],
    ['needs a proxy', config(`${SERVER}, proxy-url: "http://p"`, ''), /proxy-url: proxies are not supported/],
    [
      'uses an auth provider',
      config(SERVER, 'auth-provider: {name: oidc}'),
      /users\[0\]\.user\.auth-provider: auth providers were removed from Kubernetes clients in 1\.26/,
    ],
    ['has a plugin without a program', config(SERVER, 'exec: {apiVersion: v1}'), /exec\.command: expected a program/],
    [
      'has a plugin of an API that is not known',
      config(SERVER, 'exec: {command: x}'),
      /exec\.apiVersion: expected client/,
    ],
    [
      'has a plugin that needs a terminal',
      config(SERVER, `${EXEC}, interactiveMode: Always}`),
      /exec\.interactiveMode: expected Never or IfAvailable/,
    ],
    ['has a plugin beside a token', config(SERVER, `token: x, ${EXEC}}`), /token: expected exec or other credentials/],
    ['has a variable without a name', config(SERVER, `${EXEC}, env: [{value: x}]}`), /exec\.env\[0\]: expected name/],
    [
      'has a certificate without its key',
      config(SERVER, `client-certificate-data: ${DATA}`),
      /client-key: expected both/,
    ],
    [
      'has no PEM text in its data',
      config(`${SERVER}, certificate-authority-data: aGk=`, ''),
      /certificate-authority-data: expected PEM text/,
    ],
    [
      'names a context that it lacks',
      config(SERVER, '').replace('current-context: east', 'current-context: north'),
      /current-context: there is no context "north"/,
    ],
    [
      'names a cluster that it lacks',
      config(SERVER, '').replace('current-context: east', 'current-context: west'),
      /contexts\[1\]\.context\.cluster: there is no cluster "two"/,
    ],
    [
      'has no current context',
      config(SERVER, '').replace('current-context: east', ''),
      /current-context: expected the name/,
    ],
    ['is no YAML', 'token: [secret-of-mine', /refused: expected YAML or JSON$/],
    ['is a list', '- a', /refused: expected a kubeconfig$/],
  ];
  for (const [what, text, message] of refused) {
    test(`that ${what} is refused with its file and field`, async () => {
      const path = await write('refused', text);
      const line = await problemOf(readKubeconfig(path));
      assert.ok(line.startsWith(`${path}: `), line);
      assert.match(line, message);
    });
  }

  test('whose authority file is empty for now is refused with the field', async () => {
    const file = await write('authority.pem', PEM);
    const access = await readKubeconfig(
      await write('emptied', config(`${SERVER}, certificate-authority: ${file}`, '')),
    );
    await writeFile(file, '');
    const line = await problemOf(access.tls());
    assert.match(line, /clusters\[0\]\.cluster\.certificate-authority: expected PEM text in .*authority\.pem/);
  });

  test('that has changed is read again; its context and server stay', async () => {
    const problems: string[] = [];
    const path = await write(
      'rotated',
      config(SERVER, `token: one, client-certificate-data: ${DATA}, client-key-data: ${DATA}`),
    );
    const access = await readKubeconfig(path, { onProblem: (error) => void problems.push(error.oneLine()) });
    assert.equal(await access.token(), 'one');
    const renewed = PEM.replace('MIIB', 'MIIC');
    const data = Buffer.from(renewed).toString('base64');
    const user = `token: two, client-certificate-data: ${data}, client-key-data: ${data}`;
    await write('rotated', config(SERVER, user).replace('current-context: east', 'current-context: west'));
    assert.equal(await access.token(), 'two');
    assert.deepEqual(await access.tls(), { cert: renewed, key: renewed });
    assert.equal(await { ...access }.token(), 'two', 'a copy works as well');
    assert.deepEqual(problems, []);

    await write('rotated', 'token: [');
    assert.equal(await access.token(), 'two');
    assert.equal((await access.tls()).cert, renewed);
    await write('rotated', config('server: "https://10.6.6.6"', 'token: three'));
    assert.equal(await access.token(), 'two');
    await rm(path);
    assert.equal(await access.token(), 'two');
    assert.deepEqual(problems, [
      `${path}: expected YAML or JSON`,
      `${path}: expected the server https://10.0.0.1:6443/; changing the server needs a restart`,
      `${path}: cannot read ${path} (ENOENT)`,
    ]);
    await write('rotated', config(SERVER, 'token: four'));
    assert.equal(await access.token(), 'four');
  });

  test('that has changed before a file that it names is there is read once the file is', async () => {
    const problems: string[] = [];
    const [first, second] = [await write('first.pem', PEM), join(folder, 'second.pem')];
    const text = (file: string) => config(`${SERVER}, certificate-authority: ${file}`, '');
    const renewed = PEM.replace('MIIB', 'MIIC');
    const path = await write('ahead', text(first));
    const access = await readKubeconfig(path, { onProblem: (error) => void problems.push(error.oneLine()) });
    await write('ahead', text(second));
    assert.deepEqual(await access.tls(), { ca: PEM });
    assert.deepEqual(await access.tls(), { ca: PEM });
    await writeFile(second, renewed);
    while ((await access.tls()).ca !== renewed) await pause(20);
    assert.equal(problems.length, 1);
  });

  test('that is not there is refused with its name', async () => {
    assert.match(await problemOf(readKubeconfig(join(folder, 'none'))), /none: cannot read .*none \(ENOENT\)/);
  });
});

describe('a kubeconfig that is a text', () => {
  const read = (cluster: string, user: string) =>
    readKubeconfig({ text: config(cluster, user), name: 'Secret mesh-system/east, key config' });

  test('gives the credentials that it has inside', async () => {
    const access = await read(`${SERVER}, certificate-authority-data: ${DATA}`, 'token: one');
    assert.deepEqual(await access.tls(), { ca: PEM });
    assert.equal(await access.token(), 'one');
  });

  const refused: readonly (readonly [what: string, cluster: string, user: string, message: RegExp])[] = [
    [
      'an authority file',
      'certificate-authority: ca.pem',
      '',
      /certificate-authority: expected certificate-authority-/,
    ],
    [
      'a client certificate file',
      'tls-server-name: api',
      'client-certificate: /c',
      /client-certificate: expected client/,
    ],
    ['a key file', 'tls-server-name: api', 'client-key: /k', /client-key: expected client-key-data/],
    ['a token file', 'tls-server-name: api', 'tokenFile: /t', /tokenFile: expected token: only credentials inside/],
    ['a file beside its data', 'tls-server-name: api', 'token: x, tokenFile: /t', /tokenFile: expected token/],
    ['a credential plugin', 'tls-server-name: api', 'exec: {command: aws}', /exec: /],
    ['an auth provider', 'tls-server-name: api', 'auth-provider: {name: oidc}', /auth-provider: /],
  ];
  for (const [what, cluster, user, message] of refused) {
    test(`and names ${what} is refused with its name`, async () => {
      const line = await problemOf(read(`${SERVER}, ${cluster}`, user));
      assert.ok(line.startsWith('Secret mesh-system/east, key config: '), line);
      assert.match(line, message);
    });
  }
});

describe('a service account', () => {
  test('is not looked for outside of a Pod', async () => {
    assert.equal(await inClusterAccess({}, folder), undefined);
  });

  test('gives server, authority, namespace, and the token as it is in the file now', async () => {
    await write('token', 'one');
    await write('ca.crt', PEM);
    await write('namespace', 'mesh-system\n');
    const env = { KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '6443' };
    const access = await inClusterAccess(env, folder);
    assert.equal(access?.server.href, 'https://[fd00::1]:6443/');
    assert.equal(access?.namespace, 'mesh-system');
    assert.deepEqual(await access?.tls(), { ca: PEM });
    await write('ca.crt', '');
    assert.match(await problemOf(access?.tls() ?? Promise.resolve()), /ca\.crt: expected PEM text/);
    assert.equal(await access?.token(), 'one');
    await write('token', 'two');
    assert.equal(await access?.token(), 'two');
  });

  test('whose token is missing is refused with the file', async () => {
    const none = join(folder, 'nowhere');
    const line = await problemOf(inClusterAccess({ ORCH_SERVICE_HOST: '10.0.0.1' }, none));
    assert.match(line, /nowhere\/token \(ENOENT\)/);
  });
});
