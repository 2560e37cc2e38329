/** `ctl-discovery bug-report` of a running control plane: what the archive has, and that no secret is in it. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { stringify } from 'yaml';
import { runDiscoveryCommand } from '../../src/cli/testing/fake-pages.ts';
import { type Discovery, eventually, startDiscovery, tempDir } from '../harness/index.ts';
import { SimProxy } from '../harness/sim-proxy.ts';
import { configDir, type Document, resource, service } from './support/config.ts';
import { lazy, suiteOwner } from './support/suite.ts';

/** It is in every place of the documents where people have put keys, tokens and passwords. */
const SECRET = 'Sup3rS3cret';
const TOKEN = `eyJhbGciOiJub25lIn0.${Buffer.from(`{"sub":"${SECRET}"}`).toString('base64url')}.x`;
const base64 = Buffer.from(SECRET).toString('base64');

const patched = (applyTo: string, value: Document) =>
  resource('EnvoyFilter', `filter-${applyTo.toLowerCase().replace('_', '-')}`, {
    configPatches: [{ applyTo, match: { context: 'SIDECAR_OUTBOUND' }, patch: { operation: 'MERGE', value } }],
  });

const HOSTILE: readonly Document[] = [
  service('shop', { ports: [{ name: 'http', port: 8080 }] }),
  {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'cert', namespace: 'default' },
    type: 'kubernetes.io/tls',
    data: { 'tls.crt': base64, 'tls.key': base64 },
    stringData: { password: SECRET },
  },
  {
    ...resource('VirtualService', 'shop', {
      hosts: ['shop'],
      http: [
        {
          match: [{ headers: { 'x-api-key': { exact: SECRET } } }],
          route: [{ destination: { host: 'shop' } }],
          headers: { request: { set: { authorization: `Bearer ${SECRET}`, cookie: SECRET } } },
        },
      ],
    }),
    metadata: { name: 'shop', namespace: 'default', annotations: { 'example.com/token': SECRET } },
  },
  patched('HTTP_ROUTE', { request_headers_to_add: [{ header: { key: 'authorization', value: SECRET } }] }),
  patched('CLUSTER', {
    transport_socket: {
      name: 'envoy.transport_sockets.tls',
      typed_config: {
        '@type': 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext',
        common_tls_context: {
          tls_certificates: [{ certificate_chain: { inline_string: 'c' }, private_key: { inline_string: SECRET } }],
        },
      },
    },
  }),
  resource('RequestAuthentication', 'refused', {
    jwtRules: [{ issuer: 'i', jwks: JSON.stringify({ keys: [{ kty: 'oct', k: SECRET }] }) }],
  }),
  resource('RequestAuthentication', 'url', {
    jwtRules: [{ issuer: 'i', jwksUri: `https://user:${SECRET}@127.0.0.1:1/keys?key=${SECRET}` }],
  }),
];

const MESH = {
  defaultConfig: { proxyMetadata: { SOME_PASSWORD: SECRET }, tracing: { zipkin: { address: 'zipkin:9411' } } },
  extensionProviders: [
    {
      name: 'spans',
      opentelemetry: {
        service: 'shop.default.svc.cluster.local',
        port: 8080,
        http: { path: '/v1/traces', timeout: '1s', headers: [{ name: 'authorization', value: SECRET }] },
      },
    },
  ],
};

const owner = suiteOwner();
const control = lazy<Discovery>();
const folder = lazy<string>();

before(async () => {
  const at = folder.set(await tempDir(owner));
  const config = configDir(await tempDir(owner));
  await config.apply('hostile', ...HOSTILE);
  writeFileSync(join(at, 'mesh.yaml'), stringify(MESH));
  const discovery = control.set(
    await startDiscovery(owner, {
      configDir: config.path,
      flags: ['--profile', '--meshConfig', join(at, 'mesh.yaml')],
    }),
  );
  const proxy = new SimProxy({
    port: discovery.ports.grpc,
    mode: 'delta',
    id: 'sidecar~10.1.1.1~web.default~default.svc.cluster.local',
    metadata: { NAMESPACE: 'default', SOME_TOKEN: SECRET },
    // Envoy quotes what it does not like.
    rejects: { cds: `Proto constraint validation failed: token: "${SECRET}", header Bearer ${TOKEN}` },
  }).connect();
  owner.after(() => proxy.close());
  await eventually(async () => {
    const { counts } = (await discovery.http('/debug/proxiesz')).json() as { counts: Record<string, number> };
    assert.equal(counts.REJECTED, 1);
  });
});

/** Runs the command, and unpacks the archive with tar. */
async function report(name: string, ...args: readonly string[]) {
  const archive = join(folder.get(), `${name}.tar.gz`);
  const { http, monitoring, introspection } = control.get().ports;
  const ran = await runDiscoveryCommand(
    [
      'bug-report',
      ['--archive', archive, '--httpAddr', `127.0.0.1:${http}`, '--monitoringAddr', `127.0.0.1:${monitoring}`],
      ['--introspect_port', String(introspection), ...args],
    ].flat(),
  );
  const to = join(folder.get(), name);
  execFileSync('mkdir', [to]);
  execFileSync('tar', ['-xzf', archive, '-C', to]);
  const read = (file: string): string => readFileSync(join(to, file), 'utf8');
  const files = globSync('**/*', { cwd: to }).filter((file) => statSync(join(to, file)).isFile());
  return { ran, archive, read, files };
}

test('the archive has everything, and no key, token or password', async () => {
  const { ran, archive, read, files } = await report('all', '--profileSeconds', '1');
  assert.deepEqual([ran.code, ran.stdout, ran.stderr], [0, `${archive}\n`, '']);
  assert.equal(statSync(archive).mode & 0o777, 0o600);
  for (const file of files) {
    const text = read(file);
    for (const secret of [SECRET, TOKEN, base64])
      assert.ok(!text.includes(secret), `${file}: ${text.slice(Math.max(0, text.indexOf(secret) - 200))}`);
  }
  // What is not secret is there.
  const { items } = JSON.parse(read('configuration/documents.json'));
  assert.deepEqual(new Set(items.map(({ kind }: { kind: string }) => kind)).size, 3);
  assert.match(read('configuration/documents.json'), /"authorization": "\[redacted\]"/);
  assert.match(read('configuration/mesh.json'), /"zipkin:9411"/);
  assert.match(read('log.txt'), /\tads\t.*rejects cds/);
  assert.match(read('metrics.txt'), /^ctl_xds 1$/m);
  assert.match(read('ready.txt'), /^ready/);
  assert.equal(JSON.parse(read('status/proxies.json')).counts.REJECTED, 1);
  assert.ok(JSON.parse(read('process/flagj.json')).some(({ name }: { name: string }) => name === 'httpAddr'));
  assert.ok(files.includes('proxies/web.default.json'), 'of a proxy that is not in sync');
  assert.ok(files.includes('profiles/profile.pprof'));
  const { parts } = JSON.parse(read('manifest.json'));
  assert.deepEqual(
    parts.map(({ file }: { file: string }) => file).sort(),
    files.filter((file) => file !== 'manifest.json').sort(),
  );
});

test('an existing file is not overwritten', async () => {
  const archive = join(folder.get(), 'existing');
  writeFileSync(archive, 'mine');
  const { code, stderr } = await runDiscoveryCommand(['bug-report', '--archive', archive, '--httpAddr', '127.0.0.1:1']);
  assert.deepEqual([code, readFileSync(archive, 'utf8')], [1, 'mine']);
  assert.match(stderr, /^ctl-discovery: cannot write [^\n]+\n$/);
});
