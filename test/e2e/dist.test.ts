/**
 * The built programs. Bundling can introduce bugs (a missing package, a dynamic import of CommonJS without names, a
 * worker that is not found), so that every command and everything that is loaded lazily is used here once.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { access, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { createLocalJWKSet, type JSONWebKeySet, jwtVerify } from 'jose';
import { parse, stringify } from 'yaml';
import {
  buildAside,
  createScope,
  discoveryPorts,
  eventually,
  freePort,
  request,
  startAgent,
  startDiscovery,
  startEcho,
  tempDir,
} from '../harness/index.ts';

const PROGRAMS = ['ctl-discovery', 'ctl-agent'] as const;
const COMMANDS: Readonly<Record<(typeof PROGRAMS)[number], readonly string[]>> = {
  'ctl-discovery': ['discovery', 'env', 'get', 'issue-token', 'request', 'version'],
  'ctl-agent': ['env', 'mesh-clean-iptables', 'mesh-iptables', 'proxy', 'request', 'version', 'wait'],
};

const scope = createScope();
let folder = '';

before(async () => {
  folder = process.env.TEST_PROGRAMS ?? (await buildAside(scope));
  // The programs use the compiled code in their own folder, as they do for users.
  delete process.env.NODE_COMPILE_CACHE;
});
after(() => scope.close());

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a built program to its end. */
async function run(program: string, ...args: readonly string[]): Promise<Ran> {
  const options = { timeout: 20_000 };
  const file = join(folder, `${program}.js`);
  return promisify(execFile)(process.execPath, [file, ...args], options).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }: Ran) => ({ code, stdout, stderr }),
  );
}

for (const program of PROGRAMS) {
  test(`${program} prints its version in all forms`, async () => {
    const { version } = JSON.parse(await readFile(join(import.meta.dirname, '../../package.json'), 'utf8')) as {
      version: string;
    };
    assert.deepEqual(await run(program, 'version'), { code: 0, stdout: `${version}\n`, stderr: '' });
    const yaml = parse((await run(program, 'version', '--short=false', '-o', 'yaml')).stdout);
    const json = JSON.parse((await run(program, 'version', '--short=false', '-o', 'json')).stdout);
    assert.deepEqual(yaml, json);
    assert.deepEqual([yaml.version, yaml.nodeVersion], [version, process.version]);
    assert.match(yaml.status, /^(Clean|Modified)$/);
    assert.deepEqual(parse((await run(program, 'version', '-o', 'yaml')).stdout), { version });
  });
}

test('every command has help, and refuses unknown arguments in one line', async () => {
  for (const program of PROGRAMS) {
    for (const command of COMMANDS[program]) {
      const help = await run(program, command, '--help');
      assert.deepEqual([help.code, help.stderr], [0, ''], command);
      assert.match(help.stdout, new RegExp(`^  ${program} ${command} .*\\[flags\\]$`, 'm'));
      const refused = await run(program, command, '--nosuch');
      assert.deepEqual(refused, { code: 1, stdout: '', stderr: `${program}: unknown flag --nosuch\n` }, command);
    }
  }
});

test('both programs print their environment variables', async () => {
  for (const [program, variable] of [
    ['ctl-discovery', 'ENABLE_CA_SERVER'],
    ['ctl-agent', 'PROXY_CONFIG'],
  ] as const) {
    const { code, stdout, stderr } = await run(program, 'env');
    assert.deepEqual([code, stderr], [0, '']);
    assert.ok((JSON.parse(stdout) as { name: string }[]).some(({ name }) => name === variable));
  }
});

test('generation workers do not contain the schemas of resources, which each thread would keep in memory', async () => {
  assert.doesNotMatch(await readFile(join(folder, 'workers/generate.js'), 'utf8'), /ZodError/);
});

test('commands find the modules that they load lazily in the bundle', async () => {
  const dry = await run(
    'ctl-agent',
    'mesh-iptables',
    '--dry-run',
    '--restore-format',
    '-b',
    '*',
    '-i',
    '*',
    '-u',
    '1337',
  );
  assert.deepEqual([dry.code, dry.stderr], [0, '']);
  assert.match(dry.stdout, /^COMMIT$/m);
  assert.equal((await run('ctl-agent', 'mesh-clean-iptables', '--dry-run')).code, 0);
  const nobody = `http://127.0.0.1:${await freePort()}/`;
  for (const [program, ...args] of [
    ['ctl-agent', 'wait', '--url', nobody, '--timeoutSeconds', '1'],
    ['ctl-agent', 'request', 'GET', nobody],
    ['ctl-discovery', 'request', 'GET', nobody],
  ] as const) {
    const { code, stderr } = await run(program, ...args);
    assert.equal(code, 1);
    assert.match(stderr, /^ctl-\w+: .*ECONNREFUSED.*\n$/);
  }
  const envoy = { ENVOY_PATH: '/nosuch/envoy' };
  const agent = await startAgent(scope, {
    name: 'none',
    program: join(folder, 'ctl-agent.js'),
    discoveryAddress: '127.0.0.1:15010',
    env: envoy,
    waitReady: false,
  });
  assert.equal((await agent.exited).code, 1);
  assert.match(agent.output(), /^ctl-agent: cannot start Envoy at \/nosuch\/envoy: there is no such file$/m);
});

test('ctl-jwt prints a token and the key set that verifies it', async (t) => {
  const file = join(await tempDir(t), 'key.pem');
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  await writeFile(file, privateKey.export({ type: 'pkcs8', format: 'pem' }));
  assert.match((await run('ctl-jwt', '--help')).stdout, /^ {2}ctl-jwt KEY\.pem \[flags\]$/m);
  const token = await run('ctl-jwt', file, '--expire', '60', '--iss', 'me', '--aud', 'shop');
  const keys = await run('ctl-jwt', file, '--jwks');
  for (const { code, stderr } of [token, keys]) assert.deepEqual([code, stderr], [0, '']);
  const keySet = createLocalJWKSet(JSON.parse(keys.stdout) as JSONWebKeySet);
  await jwtVerify(token.stdout.trimEnd(), keySet, { issuer: 'me', subject: 'me', audience: 'shop' });
  const missing = await run('ctl-jwt', `${file}.not`);
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /^ctl-jwt: .*key\.pem\.not: there is no such file; [^\n]+\n$/);
});

test('a mesh of built programs: token, certificate, secured xDS, a request, metrics, the end', async (t) => {
  const [configDir, issuer, caDir, files] = await Promise.all([tempDir(t), tempDir(t), tempDir(t), tempDir(t)]);
  const echo = await startEcho(t, { name: 'echo' });
  const port = await freePort();
  const service = {
    apiVersion: 'networking.mesh.io/v1alpha3',
    kind: 'ServiceEntry',
    metadata: { name: 'echo', namespace: 'default' },
    spec: {
      hosts: ['echo.test'],
      location: 'MESH_EXTERNAL',
      resolution: 'STATIC',
      ports: [{ name: 'http', number: port, protocol: 'HTTP' }],
      endpoints: [{ address: '127.0.0.1', ports: { http: echo.port } }],
    },
  };
  await writeFile(join(configDir, 'echo.yaml'), stringify(service));
  const meshConfig = join(files, 'mesh.yaml');
  await writeFile(meshConfig, stringify({ accessLogFile: '/dev/stderr', accessLogEncoding: 'JSON' }));

  const token = await run(
    'ctl-discovery',
    ...['issue-token', '--issuer-dir', issuer, '--namespace', 'default', '--service-account', 'web'],
  );
  assert.deepEqual([token.code, token.stderr], [0, '']);
  await writeFile(join(files, 'token'), token.stdout);
  const ports = await discoveryPorts();
  const discovery = await startDiscovery(t, {
    program: join(folder, 'ctl-discovery.js'),
    configDir,
    ports,
    flags: ['--meshConfig', meshConfig, '--log_caller', 'default'],
    env: { LOCAL_TOKEN_ISSUER_DIR: issuer, SELF_SIGNED_CA_DIR: caDir },
  });
  const agent = await startAgent(t, {
    name: 'web',
    program: join(folder, 'ctl-agent.js'),
    address: '127.0.0.7',
    discoveryAddress: `127.0.0.1:${ports.secure ?? 0}`,
    env: {
      CA_TOKEN_FILE: join(files, 'token'),
      CA_ROOT_CA: join(caDir, 'root-cert.pem'),
      SERVICE_ACCOUNT: 'web',
      OUTPUT_CERTS: join(files, 'certs'),
      MESH_ORCH_APP_PROBERS: JSON.stringify({ '/app-health/web/livez': { tcpSocket: { port: echo.port } } }),
    },
  });

  const url = `http://127.0.0.1:${agent.ports.readiness}/healthz/ready`;
  assert.equal((await run('ctl-agent', 'wait', '--url', url, '--timeoutSeconds', '60')).code, 0);
  const answer = await eventually(async () => {
    const { status, body } = await request({ port, host: 'echo.test', path: '/hello' });
    assert.equal(status, 200);
    return body;
  });
  assert.match(answer, /\/hello/);
  // The agent passes access logs on unchanged.
  await eventually(() => assert.match(agent.output(), /^\{.*"path":"\/hello".*\}$/m));
  assert.equal((await agent.http('readiness', '/app-health/web/livez')).status, 200);
  await eventually(() => access(join(files, 'certs/cert-chain.pem')));
  const scrape = (await agent.http('status', '/stats/prometheus')).body;
  for (const line of [/^envoy_server_live\S* 1$/m, /^total_pushes [1-9]/m, /^cert_expiry_seconds\{.*\} \d/m])
    assert.match(scrape, line);
  const info = await run('ctl-agent', 'request', 'GET', `http://127.0.0.1:${agent.ports.admin}/server_info`);
  assert.equal(JSON.parse(info.stdout).state, 'LIVE');
  const { clients } = JSON.parse(
    (await run('ctl-discovery', 'request', 'GET', `http://127.0.0.1:${ports.http}/debug/adsz`)).stdout,
  ) as { clients: readonly unknown[] };
  assert.equal(clients.length, 1);
  assert.match(await discovery.metrics(), /^ctl_xds\b.* 1$/m);

  assert.deepEqual(await agent.stop(), { code: 0, signal: null });
  assert.deepEqual(await discovery.stop(), { code: 0, signal: null });
  // The log names callers by their source files, not by the bundle.
  assert.match(discovery.output(), /\tdefault\tserving\/xds-listeners\.ts:\d+\tlistening: /);
  for (const output of [agent.output(), discovery.output()]) assert.doesNotMatch(output, /\n {4}at |Error: |\terror\t/);
});
