/** The ConfigMaps with root certificates in a scripted API server: where they are written, repaired, and left alone. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { Connection, KubernetesClient } from '../../kubernetes/index.ts';
import { fastClock } from '../../kubernetes/testing/fast-clock.ts';
import { ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { storeWrites } from '../../kubernetes/testing/writable-objects.ts';
import { RootCertificates } from './root-certificates.ts';

const NAMESPACES = '/api/v1/namespaces';
const CONFIG_MAPS = '/api/v1/configmaps';
const NAME = 'mesh-ca-root-cert';

const cleanup: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of cleanup.splice(0).reverse()) await close();
});

async function cluster(...namespaces: readonly string[]) {
  const server = await ScriptedApiServer.start();
  server.serve(CONFIG_MAPS);
  for (const name of namespaces) server.set(NAMESPACES, { metadata: { name } });
  const control = storeWrites(server);
  const clock = fastClock(50);
  const lines: string[] = [];
  const note = (message: string): void => void lines.push(message);
  cleanup.push(() => server.stop());
  let bundle = 'ONE';
  /** Starts another replica that leads. */
  const lead = (only: readonly string[] = [], now = clock.now, own = 'mesh-system') => {
    const connection = new Connection({
      access: server.access(),
      clock: { ...clock, now },
      random: () => 0,
      userAgent: 'test',
    });
    const certificates = new RootCertificates({
      client: new KubernetesClient(connection),
      own,
      namespaces: only,
      bundle: () => bundle,
      log: { debug: () => {}, info: note, warn: note, error: note },
    });
    certificates.start();
    cleanup.push(async () => {
      await certificates.close();
      connection.close();
    });
    return certificates;
  };
  const dataIn = (namespace: string) => server.find(CONFIG_MAPS, NAME, namespace)?.data;
  const have = (text: string, ...names: readonly string[]) =>
    waitUntil(() => names.every((name) => (dataIn(name) as Record<string, string>)?.['root-cert.pem'] === text));
  const writes = () => server.requests.filter(({ method }) => method !== 'GET').map(({ path }) => path);
  const listed = () => waitUntil(() => server.watches(NAMESPACES) > 0 && server.watches(CONFIG_MAPS) > 0);
  const rotate = (text: string): void => {
    bundle = text;
  };
  return { server, control, lines, lead, dataIn, have, writes, listed, rotate };
}

describe('the ConfigMap with root certificates', () => {
  test('is in every namespace but those of Kubernetes and those that are being deleted, also in new ones', async () => {
    const it = await cluster('shop', 'mesh-system', 'kube-system', 'kube-public', 'kube-node-lease');
    it.server.set(NAMESPACES, { metadata: { name: 'ending', deletionTimestamp: '2026-01-01T00:00:00Z' } });
    it.lead();
    await it.have('ONE', 'shop', 'mesh-system');
    it.server.set(NAMESPACES, { metadata: { name: 'later' } });
    await it.have('ONE', 'later');
    assert.deepEqual(it.writes().sort(), ['later', 'mesh-system', 'shop'].map((name) => pathIn(name)).sort());
  });

  test('is only in the namespaces that are managed', async () => {
    const it = await cluster('shop', 'other', 'mesh-system');
    it.lead(['shop']);
    await it.have('ONE', 'shop', 'mesh-system');
    assert.equal(it.dataIn('other'), undefined);
    assert.equal(it.writes().length, 2);
  });

  test("is in the program's own namespace, even where that is one of Kubernetes", async () => {
    const it = await cluster('shop', 'kube-system', 'kube-public');
    it.lead([], undefined, 'kube-system');
    await it.have('ONE', 'shop', 'kube-system');
    assert.equal(it.writes().length, 2);
  });

  test('is written again after an edit or a deletion, and keeps what else is in it', async () => {
    const it = await cluster('shop', 'other');
    it.lead();
    await it.have('ONE', 'shop', 'other');
    const metadata = { name: NAME, namespace: 'shop' };
    it.server.set(CONFIG_MAPS, { metadata, data: { 'root-cert.pem': 'FORGED', note: 'x' } });
    await it.have('ONE', 'shop');
    assert.deepEqual(it.dataIn('shop'), { 'root-cert.pem': 'ONE', note: 'x' });
    it.server.remove(CONFIG_MAPS, metadata);
    await it.have('ONE', 'shop');
    assert.equal(it.writes().filter((path) => path.includes('/other/')).length, 1);
  });

  test('follows the trust bundle', async () => {
    const it = await cluster('shop', 'other');
    const certificates = it.lead();
    await it.have('ONE', 'shop', 'other');
    it.rotate('ONE TWO');
    certificates.bundleChanged();
    await it.have('ONE TWO', 'shop', 'other');
  });

  test('is not written by a new leader where it is current', async () => {
    const it = await cluster(...Array.from({ length: 100 }, (_, index) => `n${index}`));
    it.server.set(NAMESPACES, { metadata: { name: 'behind' } });
    for (let index = 0; index < 100; index++) {
      const metadata = { name: NAME, namespace: `n${index}` };
      it.server.set(CONFIG_MAPS, { metadata, data: { 'root-cert.pem': 'ONE' } });
    }
    it.lead();
    await it.have('ONE', 'behind');
    assert.deepEqual(it.writes(), [pathIn('behind')]);
  });

  test('is written at a limited rate', async () => {
    const names = Array.from({ length: 60 }, (_, index) => `n${index}`);
    const it = await cluster(...names);
    let now = 0;
    it.lead([], () => now);
    await waitUntil(() => it.writes().length === 50);
    now = 200;
    await waitUntil(() => it.writes().length === 54);
    now = 10_000;
    await it.have('ONE', ...names);
    assert.equal(it.writes().length, 60);
  });

  test('is written in many namespaces at that rate, and in none of them late', async () => {
    const names = Array.from({ length: 150 }, (_, index) => `n${index}`);
    const it = await cluster(...names);
    let now = 0;
    it.lead([], () => now);
    for (let written = 50; written < names.length; written++) {
      await waitUntil(() => it.writes().length === written);
      now += 50;
    }
    await it.have('ONE', ...names);
  });

  test('is repaired when it was edited before a write of it was answered', async () => {
    const it = await cluster('shop');
    const metadata = { name: NAME, namespace: 'shop' };
    const certificates = it.lead();
    await it.have('ONE', 'shop');
    await it.listed();
    const { intercept } = it.server;
    it.server.intercept = (request, stream) => {
      if (request.method !== 'PATCH') return intercept(request, stream);
      it.server.intercept = intercept;
      // The event of the edit arrives before the answer.
      it.server.set(CONFIG_MAPS, { metadata, data: { 'root-cert.pem': 'FORGED' } });
      setTimeout(() => it.server.json(stream, it.server.find(CONFIG_MAPS, NAME, 'shop')), 50);
      return true;
    };
    it.rotate('TWO');
    certificates.bundleChanged();
    await it.have('TWO', 'shop');
  });

  test('is repaired where its key is in the binary data', async () => {
    const it = await cluster('shop');
    const binary = { 'root-cert.pem': 'eA==', other: 'eA==' };
    it.server.set(CONFIG_MAPS, { metadata: { name: NAME, namespace: 'shop' }, data: {}, binaryData: binary });
    it.lead();
    await it.have('ONE', 'shop');
    assert.deepEqual(it.server.find(CONFIG_MAPS, NAME, 'shop')?.binaryData, { other: 'eA==' });
  });

  test('is not fought for with another author', async () => {
    const it = await cluster('shop', 'other');
    it.lead();
    await it.have('ONE', 'shop', 'other');
    const end = new AbortController();
    const { intercept } = it.server;
    it.server.intercept = (request, stream) => {
      const handled = intercept(request, stream);
      const metadata = { name: NAME, namespace: 'shop' };
      if (request.method === 'PATCH' && !end.signal.aborted) {
        it.server.set(CONFIG_MAPS, { metadata, data: { 'root-cert.pem': 'THEIRS' } });
      }
      return handled;
    };
    it.server.set(CONFIG_MAPS, { metadata: { name: NAME, namespace: 'shop' }, data: { 'root-cert.pem': 'THEIRS' } });
    await waitUntil(() => it.writes().length >= 6);
    it.server.set(NAMESPACES, { metadata: { name: 'later' } });
    await it.have('ONE', 'later');
    assert.ok(it.writes().length <= 8, `${it.writes().length} writes`);
    end.abort();
  });

  test('is one line in the log where it may not be written, and the other namespaces get theirs', async () => {
    const it = await cluster('a', 'b', 'c', 'shop');
    it.control.refuse = ({ method, path }) =>
      method === 'POST' && !path.includes('/shop/') ? [403, 'Forbidden'] : undefined;
    it.lead();
    await it.have('ONE', 'shop');
    await waitUntil(() => it.writes().length > 12);
    assert.equal(it.lines.length, 1, it.lines.join('\n'));
    assert.match(it.lines[0] ?? '', /cannot be written in some namespaces: HTTP 403 Forbidden/);
    it.control.refuse = () => undefined;
    await it.have('ONE', 'a', 'b', 'c');
    await waitUntil(() => it.lines.length === 2);
    assert.match(it.lines[1] ?? '', /written again/);
  });

  test('is not asked for any more in a namespace that is gone', async () => {
    const it = await cluster('shop', 'gone');
    it.control.refuse = ({ method, path }) =>
      method === 'POST' && path.includes('/gone/') ? [404, 'NotFound'] : undefined;
    it.lead();
    await it.have('ONE', 'shop');
    await waitUntil(() => it.writes().filter((path) => path.includes('/gone/')).length >= 2);
    it.server.remove(NAMESPACES, { name: 'gone' });
    it.server.set(NAMESPACES, { metadata: { name: 'later' } });
    await it.have('ONE', 'later');
    assert.deepEqual(it.lines, []);
  });
});

function pathIn(namespace: string): string {
  return `/api/v1/namespaces/${namespace}/configmaps`;
}
