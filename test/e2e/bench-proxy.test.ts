/**
 * The simulated proxies of the benches begin as real ones do: their first request is that of an Envoy which the agent
 * runs, but for the order of extensions and metadata, which Envoy does not keep. `UPDATE_GOLDEN=1` rewrites the part of
 * the node that Envoy adds.
 */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { ENVOY_PART, encodeNode, sidecarNode } from '../../bench/client/node.ts';
import { asField, deltaHead } from '../../bench/client/requests.ts';
import { startTestCa } from '../../src/agent/identity/testing/test-ca.ts';
import { type JsonObject, toProtoJson } from '../../src/protobuf/index.ts';
import { startAgent } from '../harness/agent.ts';
import { tempDir } from '../harness/files.ts';
import type { Owner } from '../harness/owner.ts';

const REQUEST = 'envoy.service.discovery.v3.DeltaDiscoveryRequest';
const GRPC_PREFIX_BYTES = 5;

/** A server that accepts a stream and answers nothing, and the first message that it receives. */
async function recordingServer(owner: Owner): Promise<{ readonly port: number; readonly first: Promise<Buffer> }> {
  const server = createServer();
  owner.after(() => void server.close());
  const first = new Promise<Buffer>((resolve) => {
    server.on('session', (session) => {
      session.on('error', () => {});
      owner.after(() => session.destroy());
    });
    server.on('stream', (stream) => {
      stream.on('error', () => {});
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
      let received: Buffer = Buffer.alloc(0);
      stream.on('data', (piece: Buffer) => {
        received = Buffer.concat([received, piece]);
        if (received.length < GRPC_PREFIX_BYTES) return;
        const end = GRPC_PREFIX_BYTES + received.readUInt32BE(1);
        if (received.length >= end) resolve(received.subarray(GRPC_PREFIX_BYTES, end));
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: (server.address() as AddressInfo).port, first };
}

/** The first request of the Envoy of an agent in the Pod that is simulated. */
async function realRequest(owner: Owner): Promise<Buffer> {
  const { ip, workload, namespace, serviceAccount, labelFile, env } = SIDECAR;
  const { port, first } = await recordingServer(owner);
  const ca = await startTestCa();
  owner.after(() => ca.close());
  const folder = await tempDir(owner);
  const [roots, token] = [join(folder, 'root-cert.pem'), join(folder, 'token')];
  await writeFile(roots, ca.root.pem);
  await writeFile(token, 'token');
  // As in a Pod: labels of the environment are additional ones, which a node states separately.
  await mkdir(join(folder, 'etc/mesh/pod'), { recursive: true });
  await writeFile(join(folder, 'etc/mesh/pod/labels'), labelFile);
  await startAgent(owner, {
    name: workload,
    address: ip,
    podNamespace: namespace,
    cwd: folder,
    discoveryAddress: `127.0.0.1:${port}`,
    proxyConfig: { controlPlaneAuthPolicy: 'NONE', interceptionMode: 'REDIRECT' },
    env: {
      MESH_METAJSON_LABELS: '',
      CA_ADDR: `127.0.0.1:${ca.port}`,
      CA_ROOT_CA: roots,
      CA_TOKEN_FILE: token,
      SKIP_PARSE_TOKEN: 'true',
      SERVICE_ACCOUNT: serviceAccount,
      MESH_META_WORKLOAD_NAME: String(env.MESH_META_WORKLOAD_NAME),
      MESH_META_OWNER: String(env.MESH_META_OWNER),
    },
    waitReady: false,
  });
  return first;
}

const SIDECAR = sidecarNode({ index: 258, namespace: 'ns-07', content: 'mtls' });

interface ReadableRequest extends JsonObject {
  readonly node: JsonObject;
  /** In a stable order. */
  readonly extensions: readonly JsonObject[];
}

function readable(request: Buffer): ReadableRequest {
  const json = toProtoJson(REQUEST, request) as { readonly node: JsonObject };
  const { extensions, ...node } = json.node;
  const sorted = [...(extensions as readonly JsonObject[])].sort((a, b) => (sortKey(a) < sortKey(b) ? -1 : 1));
  return { ...json, node, extensions: sorted };
}

function sortKey({ category, name }: JsonObject): string {
  return `${String(category)} ${String(name)}`;
}

async function updateEnvoyPart(request: Buffer): Promise<void> {
  const { node, extensions } = readable(request);
  const { id, cluster, metadata, locality, ...rest } = node;
  const lines = extensions.map((extension) => `  ${JSON.stringify(extension)}`);
  const head = JSON.stringify(rest).slice(0, -1);
  await writeFile(ENVOY_PART, `${head},"extensions":[\n${lines.join(',\n')}\n]}\n`);
}

test('the first request of a simulated proxy is that of an Envoy that the agent runs', async (t) => {
  const real = await realRequest(t);
  if (process.env.UPDATE_GOLDEN === '1') await updateEnvoyPart(real);
  // A simulated Pod has one address. This agent also reports those of the machine's interfaces.
  const { node } = readable(real);
  const { INSTANCE_IPS } = node.metadata as { readonly INSTANCE_IPS: string };
  const addresses = INSTANCE_IPS.split(',');
  assert.equal(addresses[0], SIDECAR.ip);
  const simulated = Buffer.concat([...asField(1, encodeNode({ ...SIDECAR, addresses })), deltaHead('cds', '')]);
  // Two steps, because a message about a difference should show it.
  const [{ extensions, ...own }, { extensions: expected, ...envoys }] = [readable(simulated), readable(real)];
  assert.deepEqual(own, envoys);
  assert.deepEqual(extensions, expected);
  // Fields that the JSON form does not show would make it longer.
  assert.equal(simulated.length, real.length);
});
