import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { type GrpcBootstrapInput, grpcBootstrap, writeGrpcBootstrap } from './grpc.ts';

const INPUT: GrpcBootstrapInput = {
  path: '/run/grpc.json',
  local: { path: 'etc/XDS' },
  node: { id: 'sidecar~10.0.0.1~web.foo~foo.svc.cluster.local', metadata: { NAMESPACE: 'foo' } },
  certificates: '/certs',
};

test('the bootstrap names the proxy of the agent, the node and the files of the certificate', () => {
  assert.deepEqual(grpcBootstrap(INPUT)?.content, {
    xds_servers: [
      {
        server_uri: `unix://${resolve('etc/XDS')}`,
        channel_creds: [{ type: 'insecure' }],
        server_features: ['xds_v3'],
      },
    ],
    node: {
      id: 'sidecar~10.0.0.1~web.foo~foo.svc.cluster.local',
      locality: {},
      metadata: { NAMESPACE: 'foo', GENERATOR: 'grpc' },
    },
    certificate_providers: {
      default: {
        plugin_name: 'file_watcher',
        config: {
          certificate_file: '/certs/cert-chain.pem',
          private_key_file: '/certs/key.pem',
          ca_certificate_file: '/certs/root-cert.pem',
          refresh_interval: '60s',
        },
      },
    },
    server_listener_resource_name_template: 'xds.mesh.io/grpc/lds/inbound/%s',
  });
});

test('without OUTPUT_CERTS the application has no certificates', () => {
  assert.equal(grpcBootstrap({ ...INPUT, certificates: '' })?.content.certificate_providers, undefined);
});

test('addresses of the proxy are written as gRPC reads them', () => {
  const uri = (local: GrpcBootstrapInput['local']) =>
    JSON.stringify(grpcBootstrap({ ...INPUT, local })?.content.xds_servers).match(/"server_uri":"([^"]*)"/)?.[1];
  assert.equal(uri({ host: '127.0.0.1', port: 15999 }), '127.0.0.1:15999');
  assert.equal(uri({ host: '::1', port: 15999 }), '[::1]:15999');
});

test('a bootstrap needs the proxy, and none is made without a path', () => {
  assert.equal(grpcBootstrap({ ...INPUT, path: '', local: undefined }), undefined);
  assert.throws(() => grpcBootstrap({ ...INPUT, local: undefined }), /needs the xDS proxy \(XDS_LOCAL\)/);
});

test('the file is written in one step, into a folder that is made; a failure names the file', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'meshd-grpc-'));
  t.after(() => rm(folder, { recursive: true }));
  const path = join(folder, 'deep', 'bootstrap.json');
  const made = grpcBootstrap({ ...INPUT, path });
  const umask = process.umask(0o077);
  await writeGrpcBootstrap(made).finally(() => process.umask(umask));
  assert.equal((await stat(path)).mode & 0o777, 0o644, 'users of other containers read it');
  assert.deepEqual(JSON.parse(await readFile(path, 'utf8')), made?.content);
  assert.deepEqual(await readdir(join(folder, 'deep')), ['bootstrap.json']);
  const under = grpcBootstrap({ ...INPUT, path: join(path, 'file') });
  await assert.rejects(writeGrpcBootstrap(under), /cannot write the bootstrap of gRPC applications/);
});
