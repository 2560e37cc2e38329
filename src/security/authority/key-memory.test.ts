/** The authority's key in the memory of the main thread, of which debug pages and crashes can leave copies. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { getHeapSnapshot } from 'node:v8';
import { tempDir } from '../../../test/harness/files.ts';
import { systemClock } from '../../core/clock.ts';
import { Connection, KubernetesClient } from '../../kubernetes/index.ts';
import { ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { storeWrites } from '../../kubernetes/testing/writable-objects.ts';
import { createAuthority } from './authority.ts';
import { createSecretStore } from './store-secret.ts';
import { csr, ecKey } from './testing/fixtures.ts';

const IDENTITY = { trustDomain: 'cluster.local', namespace: 'shop', serviceAccount: 'cart' };
const LOG = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const LINE_LENGTH = 64;

for (const isShared of [false, true]) {
  test(`a snapshot of the heap does not contain the key of a ${isShared ? 'Secret' : 'directory'}`, async (t) => {
    const selfSignedCaDir = await tempDir(t);
    const cluster = isShared ? await secret(t) : undefined;
    const ca = await createAuthority({
      settings: {
        selfSignedCaLifetimeSeconds: 3650 * 86_400,
        selfSignedCaRsaBits: 2048,
        rootCheckIntervalMs: 3_600_000,
        rootGracePercentile: 20,
        rootCheckJitter: false,
        defaultWorkloadCertLifetimeSeconds: 86_400,
        maxWorkloadCertLifetimeSeconds: 90 * 86_400,
        rootCaDir: '/nonexistent',
        selfSignedCaDir,
      },
      trustDomain: 'cluster.local',
      log: LOG,
      ...(cluster === undefined ? {} : { store: cluster.store }),
    });
    t.after(() => ca.close());
    await ca.sign({ csr: csr({ key: ecKey('P-256') }), identity: IDENTITY, lifetimeSeconds: 0 });

    // In buffers, as the snapshot: their bytes are not on the heap.
    const key = cluster?.key() ?? (await readFile(join(selfSignedCaDir, 'ca-state.json')));
    const start = key.indexOf('BEGIN PRIVATE KEY');
    // A part of the private exponent: certificates contain the modulus before it. Snapshots cut long strings off.
    const end = key.indexOf(isShared ? '\n' : '\\n', start + 10 * LINE_LENGTH);
    const part = key.subarray(end - LINE_LENGTH / 2, end);
    const chunks: Buffer[] = [];
    for await (const chunk of getHeapSnapshot()) chunks.push(Buffer.from(chunk as Uint8Array));
    const snapshot = Buffer.concat(chunks);
    assert.ok(snapshot.includes('selfSignedCaDir'), 'the snapshot has the strings of the heap');
    assert.equal(snapshot.indexOf(part), -1);
  });
}

/** A store in a scripted API server. */
async function secret(t: TestContext) {
  const server = await ScriptedApiServer.start();
  t.after(() => server.stop());
  server.serve('/api/v1/secrets');
  storeWrites(server);
  const [clock, random] = [systemClock, Math.random];
  const connection = new Connection({ access: server.access(), clock, random, userAgent: 'test' });
  t.after(() => connection.close());
  const client = new KubernetesClient(connection);
  const store = createSecretStore({ client, namespace: 'mesh-system', now: Date.now, log: LOG });
  const key = (): Buffer => {
    const found = server.find('/api/v1/secrets', 'mesh-ca-secret', 'mesh-system');
    const { 'ca-key.pem': text = '' } = (found?.data ?? {}) as Record<string, string>;
    return Buffer.from(text, 'base64');
  };
  return { store, key };
}
