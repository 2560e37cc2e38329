/** Certificates of a signer of a scripted API server. */
import assert from 'node:assert/strict';
import { createPublicKey, X509Certificate } from 'node:crypto';
import { afterEach, describe, test } from 'node:test';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { Connection, KubernetesClient } from '../../kubernetes/index.ts';
import { fastClock } from '../../kubernetes/testing/fast-clock.ts';
import { ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { readCsr } from '../authority/csr.ts';
import { ecKey, type LeafOptions, makeCa, makeLeaf, NOW, pemOf } from '../testing/credentials.ts';
import { createClusterSigner } from './cluster-signer.ts';

const PATH = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
const NAMES = ['meshd.mesh-system.svc', 'meshd.example.com', '10.0.0.1'];
const ca = makeCa({ name: 'signer' });

const cleanup: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of cleanup.splice(0).reverse()) await close();
});

interface Spec {
  readonly request: string;
  readonly signerName: string;
  readonly expirationSeconds: number;
  readonly usages: readonly string[];
}

/** The certificate that a good signer issues, in the form of the API. */
function signed({ request }: Spec, changes: Partial<LeafOptions> = {}): string {
  const { publicKey } = readCsr(Buffer.from(request, 'base64').toString());
  const keys = { ...ecKey('P-256'), publicKey: createPublicKey({ key: publicKey, format: 'der', type: 'spki' }) };
  const leaf = makeLeaf({ issuer: ca, keys, uris: [], dnsNames: NAMES, ...changes });
  return Buffer.from(pemOf(leaf)).toString('base64');
}

/** An API server that answers looks at a request with this status. */
async function world(statusOf: (spec: Spec, looks: number) => object, approval = 200) {
  const server = await ScriptedApiServer.start();
  cleanup.push(() => server.stop());
  const specs: Spec[] = [];
  let looks = 0;
  server.intercept = ({ method, path, body }, stream) => {
    const metadata = { name: 'meshd-1', resourceVersion: '1' };
    if (method === 'POST' && path === PATH) {
      specs.push((JSON.parse(body) as { spec: Spec }).spec);
      return server.json(stream, { metadata, spec: specs.at(-1) });
    }
    if (method === 'PUT') return approval === 200 ? server.json(stream, {}) : server.fail(stream, approval, 'Scripted');
    const [spec] = specs;
    if (spec === undefined) return false;
    return server.json(stream, { metadata, spec, status: statusOf(spec, ++looks) });
  };
  const waiting: string[] = [];
  const clock = fastClock(50);
  const connection = new Connection({ access: server.access(), clock, random: () => 0, userAgent: 'test' });
  cleanup.push(() => connection.close());
  const signer = createClusterSigner({
    client: new KubernetesClient(connection),
    signerName: 'example.com/serving',
    namePrefix: 'meshd-mesh-system',
    clock,
    random: () => 0,
    now: () => NOW,
    onWaiting: (reason) => waiting.push(reason),
  });
  cleanup.push(() => signer.close());
  return { server, specs, waiting, signer, issue: () => signer.serverCertificate(NAMES, 3600) };
}

describe('a certificate of a signer of the cluster', () => {
  test('is requested with a new key, approved, and waited for', async () => {
    const { issue, server, specs, waiting } = await world((spec, looks) =>
      looks < 3 ? {} : { certificate: signed(spec) },
    );
    const { chain, key, expiresAt } = await issue();
    const leaf = new X509Certificate(chain);
    assert.ok(leaf.publicKey.equals(createPublicKey(key)));
    assert.equal(expiresAt, leaf.validToDate.getTime());
    const [{ request: _, ...spec } = assert.fail('no request')] = specs;
    const usages = ['digital signature', 'server auth'];
    assert.deepEqual(spec, { signerName: 'example.com/serving', expirationSeconds: 3600, usages });
    const approval = server.requests.find(({ method }) => method === 'PUT');
    assert.equal(approval?.path, `${PATH}/meshd-1/approval`);
    const { kind, status } = JSON.parse(approval.body) as { kind: string; status: { conditions: object[] } };
    assert.deepEqual([kind, status.conditions.length], ['CertificateSigningRequest', 1]);
    assert.deepEqual(waiting, ['CertificateSigningRequest meshd-1 is waiting for signer example.com/serving']);
  });

  test('waits for the approval of somebody else without the permission to approve', async () => {
    const { issue, waiting } = await world((spec) => ({ certificate: signed(spec) }), 403);
    await issue();
    assert.match(
      waiting.join(),
      /^CertificateSigningRequest meshd-1 .*\(kubectl certificate approve meshd-1\): HTTP 403/,
    );
  });

  test('is approved again when the request has changed without a decision, and not after a decision', async () => {
    for (const [conditions, approvals] of [
      [[], 2],
      [[{ type: 'Approved', status: 'True' }], 1],
    ] as const) {
      const { issue, server, waiting } = await world((spec, looks) =>
        looks === 1 ? { conditions } : { certificate: signed(spec) },
      );
      const { intercept } = server;
      const puts = () => server.requests.filter(({ method }) => method === 'PUT').length;
      server.intercept = (request, stream) =>
        request.method === 'PUT' && puts() === 1 ? server.fail(stream, 409, 'Conflict') : intercept(request, stream);
      await issue();
      assert.equal(puts(), approvals);
      assert.deepEqual(waiting, ['CertificateSigningRequest meshd-1 is waiting for signer example.com/serving']);
    }
  });

  test('is requested until the API server accepts the request, and each reason is reported once', async () => {
    const { issue, server, waiting } = await world((spec) => ({ certificate: signed(spec) }));
    const { intercept } = server;
    let failures = 0;
    server.intercept = (request, stream) =>
      request.method === 'POST' && failures++ < 3 ? server.fail(stream, 403, 'Forbidden') : intercept(request, stream);
    await issue();
    assert.match(waiting[0] ?? '', /of the signer example.com\/serving cannot be requested: HTTP 403 Forbidden/);
    assert.equal(waiting.length, 2);
  });

  const REFUSED: readonly (readonly [string, (spec: Spec) => object, RegExp])[] = [
    ['was denied', () => ({ conditions: [{ type: 'Denied', status: 'True', message: 'no' }] }), /was denied: "no"$/],
    ['has failed', () => ({ conditions: [{ type: 'Failed', status: 'True' }] }), /has failed$/],
    ['is empty', () => ({ certificate: '' }), /holds no certificate/],
    ['has another key', (spec) => ({ certificate: signed(spec, { keys: ecKey('P-256') }) }), /has another key$/],
    [
      'is for fewer names',
      (spec) => ({ certificate: signed(spec, { dnsNames: NAMES.slice(0, 1) }) }),
      /is not for meshd.example.com$/,
    ],
    ['has ended', (spec) => ({ certificate: signed(spec, { notAfter: NOW }) }), /expired at 20/],
  ];
  for (const [what, status, reason] of REFUSED)
    test(`is an error when it ${what}`, async () => {
      const { issue } = await world(status);
      await assert.rejects(issue(), (error: { oneLine?: () => string }) => {
        assert.match(error.oneLine?.() ?? '', reason);
        return true;
      });
    });

  test('is an error when the API server does not know such a signer', async () => {
    const { issue, server } = await world(() => ({}));
    server.intercept = (_, stream) => server.fail(stream, 422, 'Invalid');
    await assert.rejects(issue(), /HTTP 422 Invalid/);
  });

  test('is not waited for any longer when the program ends', async () => {
    const { issue, signer, server } = await world(() => ({}));
    const issued = issue();
    await waitUntil(() => server.requests.length > 3);
    signer.close();
    await assert.rejects(issued, { code: 'unavailable' });
  });
});
