/**
 * Adapters outside through real Envoys: gRPC servers in plain text, with TLS and tokens, and with mutual TLS; their
 * results, used again as they allow; and what happens when they are killed, slow, or break their contract.
 */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { type Client, Metadata } from '@grpc/grpc-js';
import { POLICY_NAMESPACE_METADATA } from '../../src/core/proxy.ts';
import { encode, envoy } from '../../src/protobuf/index.ts';
import { ecKey } from '../../src/security/authority/testing/fixtures.ts';
import { issueToken } from '../../src/security/local-issuer.ts';
import { type Discovery, type EchoReply, eventually, request, tempDir } from '../harness/index.ts';
import { certificate, channel, client } from './support/identity-calls.ts';
import { startProxy } from './support/mesh.ts';
import {
  ADAPTER_DOCUMENTS,
  type AdapterFiles,
  adapterFiles,
  type PolicyAdapter,
  startPolicyAdapter,
} from './support/policy-adapter.ts';
import { policyDocument as document } from './support/policy-documents.ts';
import {
  AT,
  action,
  apply,
  DENY,
  HTTP,
  outcome,
  owner,
  PATIENCE_MS,
  PROXIES,
  type Proxy as ProxyName,
  ROOT,
  rule,
  SHOP,
  send,
  settled,
  shared,
  usePolicyWorld,
} from './support/policy-world.ts';
import { lazy } from './support/suite.ts';

const { CheckRequest, CheckResponse } = envoy.service.auth.v3;
type AttributeContext = envoy.service.auth.v3.AttributeContext.Input;
type CheckAnswer = envoy.service.auth.v3.CheckResponse;

usePolicyWorld('web', 'other');

const UNDECIDED = '503 UNAVAILABLE:court.mesh-system:the policy cannot be evaluated';
const user = (name: string) => ({ headers: { 'x-user': name } });
const USER = 'request.headers["x-user"] | "nobody"';
/** A host that the certificates of adapters are for. */
const NAME = 'court.example';
const IDENTITY = 'spiffe://cluster.local/ns/court/sa/judge';

interface Issued {
  readonly replica: Discovery;
  readonly token: string;
  readonly root: string;
}

let files: AdapterFiles;
/** By the first test that needs it. */
const issued = lazy<Issued>();

before(async () => {
  files = await adapterFiles(owner, [NAME, IDENTITY]);
});

/**
 * A handler at an address, asked about all requests; `more` are fields of its connection. It has the longest time that
 * is allowed: on a crowded machine an answer may take longer than the default.
 */
function judging(address: string, more: object = {}, namespace = ROOT) {
  return [
    ...ADAPTER_DOCUMENTS,
    document(
      'handler',
      'court',
      { adapter: 'court.mesh-system', params: { realm: 'shop' }, connection: { address, timeout: '5s', ...more } },
      namespace,
    ),
    document('instance', 'who', { template: 'judge.mesh-system', params: { user: USER } }, namespace),
    rule(
      'judged',
      {
        actions: [{ handler: 'court', instances: ['who'], name: 'judge' }],
        requestHeaderOperations: [{ name: 'x-verdict', values: ['judge.output.verdict'] }],
      },
      namespace,
    ),
  ];
}

/** Allows everyone but eve. */
const strict: PolicyAdapter['answer'] = ({ users: [name = ''] }) => ({
  result: { status: name === 'eve' ? { code: 7, message: `not ${name}` } : {} },
  output: { verdict: `${name} may` },
});

const DENIED = '403 PERMISSION_DENIED:court.mesh-system:not eve';

const verdict = async (proxy: ProxyName, name: string): Promise<unknown> => {
  const { body } = await send(proxy, user(name));
  return (JSON.parse(body) as EchoReply).headers['x-verdict'];
};

describe('results', () => {
  test('an adapter decides, and operations of headers read its output', async () => {
    const adapter = await startPolicyAdapter(owner, strict);
    await apply(...judging(adapter.address, {}, 'shop'));
    await settled({ web: ['403 PERMISSION_DENIED:court.shop:not eve', user('eve')] });
    assert.equal(await verdict('web', 'ann'), 'ann may');
    assert.deepEqual(adapter.asked.at(-1), { template: 'judge', users: ['ann'], realm: 'shop', tokens: [] });
    assert.equal(await outcome('other', user('eve')), 'app', 'rules of another namespace');
  });

  test('a result is used as often and as long as it allows, by each caller', async () => {
    const adapter = await startPolicyAdapter(owner, strict);
    const asked = (name: string): number => adapter.asked.filter(({ users }) => users.includes(name)).length;
    const allow = (valid: object) => () => ({ result: { status: {}, ...valid }, output: { verdict: 'v' } });
    await apply(...judging(adapter.address));
    await settled({ web: [DENIED, user('eve')], other: [DENIED, user('eve')] });

    adapter.answer = allow({ valid_duration: { seconds: 600 }, valid_use_count: 3 });
    for (let count = 0; count < 4; count++) assert.equal(await verdict('web', 'ann'), 'v');
    assert.equal(asked('ann'), 2, 'three uses, then one of the next result');
    assert.equal(await outcome('other', user('ann')), 'app');
    assert.equal(asked('ann'), 3, 'another caller');

    adapter.answer = allow({ valid_duration: { nanos: 1 }, valid_use_count: 100 });
    for (let count = 0; count < 3; count++) assert.equal(await outcome('web', user('joe')), 'app');
    assert.equal(asked('joe'), 3, 'the time is over');

    // Refusals are used again, too.
    adapter.answer = () => ({
      result: { status: { code: 7, message: 'no' }, valid_duration: { seconds: 600 }, valid_use_count: 100 },
    });
    for (let count = 0; count < 3; count++)
      assert.equal(await outcome('web', user('tom')), '403 PERMISSION_DENIED:court.mesh-system:no');
    assert.equal(asked('tom'), 1);
  });

  test('an adapter grants quotas and takes records', async () => {
    const taken = new Map<string, number>();
    const adapter = await startPolicyAdapter(owner, ({ template, users: [name = ''] }) => {
      if (template === 'notes') return {};
      const count = (taken.get(name) ?? 0) + 1;
      taken.set(name, count);
      return { quotas: { 'unit.instance.shop': { granted_amount: count <= 2 ? 1 : 0 } } };
    });
    await apply(
      ...ADAPTER_DOCUMENTS,
      document('handler', 'court', {
        adapter: 'court.mesh-system',
        connection: { address: adapter.address, timeout: '5s' },
      }),
      document('instance', 'unit', { template: 'units.mesh-system', params: { user: USER } }),
      document('instance', 'note', { template: 'notes.mesh-system', params: { user: USER, code: 'response.code' } }),
      rule('judged', { actions: [{ handler: 'court', instances: ['unit', 'note'] }] }),
    );
    const over = '429 RESOURCE_EXHAUSTED:court.shop:quota unit.instance.shop is exhausted';
    await settled({ web: [over, user('probe')] });
    assert.deepEqual([await outcome('web', user('tim')), await outcome('web', user('tim'))], ['app', 'app']);
    assert.equal(await outcome('web', user('tim')), over);
    await eventually(
      () => {
        const noted = adapter.asked.filter(({ template }) => template === 'notes').flatMap(({ users }) => users);
        assert.equal(noted.filter((name) => name === 'tim').length, 3);
      },
      { timeoutMs: PATIENCE_MS },
    );
  });
});

describe('connections', () => {
  test('TLS verifies the name, and sends the token of a file', async () => {
    const token = join(await tempDir(owner), 'token');
    await writeFile(token, 'secret\n');
    const adapter = await startPolicyAdapter(owner, strict, files.server(false));
    const tls = (serverName: string) => ({
      authentication: { tls: { caCertificates: files.root, serverName, tokenPath: token, authHeader: 'BEARER' } },
    });
    await apply(...judging(adapter.address, tls(NAME)));
    await settled({ web: [DENIED, user('eve')] });
    assert.deepEqual(adapter.asked.at(-1)?.tokens, ['Bearer secret']);
    await apply(...judging(adapter.address, tls('other.example')));
    await settled({ web: [UNDECIDED, user('ann')] });
    await apply(...judging(adapter.address));
    await settled({ web: [UNDECIDED, user('bob')] });
  });

  test('mutual TLS verifies the identity, unless BYPASS_OOP_MTLS_SAN_VERIFICATION is set', async () => {
    const adapter = await startPolicyAdapter(owner, strict, files.server(true));
    const mutual = (serverName: string) => ({
      authentication: {
        mutual: { privateKey: files.key, clientCertificate: files.certificate, caCertificates: files.root, serverName },
      },
    });
    for (const name of [IDENTITY, NAME]) {
      await apply(...judging(adapter.address, mutual(name)));
      await settled({ web: [DENIED, user('eve')] });
      assert.equal(await verdict('web', 'ann'), 'ann may');
    }
    // Without a certificate of the client, the adapter refuses.
    await apply(
      ...judging(adapter.address, { authentication: { tls: { caCertificates: files.root, serverName: NAME } } }),
    );
    await settled({ web: [UNDECIDED, user('ann')] });
    await apply(...judging(adapter.address, mutual(`${IDENTITY}-other`)));
    const asked = adapter.asked.length;
    for (const name of ['ann', 'bob']) await settled({ web: [UNDECIDED, user(name)] });
    assert.equal(adapter.asked.length, asked, 'nothing is sent to it');

    const folder = await tempDir(owner);
    // Its key pair must be there before ctl-discovery looks for it.
    const token = await tokenOf(folder);
    const replica = await shared.get().startReplica({
      env: {
        BYPASS_OOP_MTLS_SAN_VERIFICATION: 'true',
        LOCAL_TOKEN_ISSUER_DIR: folder,
        SELF_SIGNED_CA_DIR: folder,
      },
    });
    issued.set({ replica, token, root: await readFile(join(folder, 'root-cert.pem'), 'utf8') });
    await startProxy(owner, replica.ports.grpc, { name: 'one', ...PROXIES.one, address: AT.one });
    await settled({ one: [DENIED, user('eve')] });
  });
});

describe('callers', () => {
  test('a proxy decides as its certificate says, not as it claims', async () => {
    const { replica, token, root } = issued.get();
    const { secure = assert.fail() } = replica.ports;
    const facts = ['destination.namespace', 'destination.principal', 'destination.workload.name | "none"'];
    await apply(
      ...DENY,
      rule('closed', action('deny', 'any')),
      rule('told', { responseHeaderOperations: [{ name: 'x-me', values: facts }] }, 'other'),
    );
    await settled({ web: ['403 PERMISSION_DENIED:deny.shop:not today'] });
    const keys = ecKey('P-256');
    const chain = (await certificate(client(owner, secure, channel({ root })), keys, token)).join('');
    const proxy = client(owner, secure, channel({ root }, { chain, keys }));
    await eventually(
      async () => {
        const { okResponse, status } = await check(proxy, {
          source: { address: { socketAddress: { address: '10.0.0.1', portValue: 1 } } },
          destination: {
            address: { socketAddress: { address: AT.web, portValue: HTTP } },
            principal: 'spiffe://cluster.local/ns/shop/sa/web',
            labels: { app: 'web' },
          },
          request: { http: { method: 'GET', path: '/', host: 'web.shop' } },
          contextExtensions: { namespace: 'shop' },
        });
        const headers = okResponse?.responseHeadersToAdd.map(({ header }) => [header?.key, header?.value]);
        assert.deepEqual([status?.code, headers], [0, [['x-me', 'other,cluster.local/ns/other/sa/other,none']]]);
      },
      { timeoutMs: PATIENCE_MS },
    );
  });
});

/** Asks as Envoy does, and claims to be a proxy of the namespace `shop`. */
function check(proxy: Client, attributes: AttributeContext): Promise<CheckAnswer> {
  const metadata = new Metadata();
  metadata.set(POLICY_NAMESPACE_METADATA, SHOP);
  const asIs = (bytes: Buffer): Buffer => bytes;
  const request = Buffer.from(encode(CheckRequest, { attributes }));
  return new Promise((resolve, reject) => {
    const path = '/envoy.service.auth.v3.Authorization/Check';
    proxy.makeUnaryRequest(path, asIs, asIs, request, metadata, (error, answer) =>
      answer === undefined ? reject(error ?? new Error('no answer')) : resolve(CheckResponse.decode(answer)),
    );
  });
}

/** A token of the workload `other` of the namespace `other`. */
function tokenOf(directory: string): Promise<string> {
  const identity = { namespace: 'other', serviceAccount: 'other' };
  return issueToken({ directory, identity, audience: 'mesh-ca', lifetimeSeconds: 600, now: Date.now() });
}

describe('failures', () => {
  test('requests are refused while an adapter is slow, breaks its contract or is gone; others are decided', async () => {
    const adapter = await startPolicyAdapter(owner, strict);
    await apply(...judging(adapter.address));
    await settled({ web: [DENIED, user('eve')], other: [DENIED, user('eve')] });
    const lies: readonly [what: string, answer: PolicyAdapter['answer'], expected: string][] = [
      ['an error', () => Promise.reject(new Error('broken')), UNDECIDED],
      ['no message', () => Buffer.from([0xff, 0xff, 0xff]), UNDECIDED],
      ['a field of another type', () => Buffer.from('0801', 'hex'), UNDECIDED],
      ['a message of 2 MiB', () => Buffer.alloc(2 * 1024 * 1024), UNDECIDED],
      [
        'an unknown code',
        () => ({ result: { status: { code: 99, message: 'x' } } }),
        '403 PERMISSION_DENIED:court.mesh-system:x',
      ],
      [
        'a negative code',
        () => ({ result: { status: { code: -1, message: 'x' } } }),
        '403 PERMISSION_DENIED:court.mesh-system:x',
      ],
    ];
    for (const [what, answer, expected] of lies) {
      adapter.answer = answer;
      assert.equal(await outcome('web', user(what)), expected, what);
    }
    // A negative time and number of uses: asked each time.
    adapter.answer = () => ({
      result: { valid_duration: { seconds: -5 }, valid_use_count: -1 },
      output: { verdict: 'v' },
    });
    for (let count = 0; count < 2; count++) assert.equal(await outcome('web', user('negative')), 'app');
    assert.equal(adapter.asked.filter(({ users }) => users.includes('negative')).length, 2);
    adapter.answer = strict;
    assert.equal(await outcome('web', user('ann')), 'app');
    adapter.answer = () => new Promise(() => undefined);
    await apply(...judging(adapter.address, { timeout: '0.3s' }));
    assert.equal(await outcome('web', user('slow')), UNDECIDED);
    adapter.kill();
    assert.equal(await outcome('web', user('bob')), UNDECIDED);
  });

  test('requests pass when an adapter cannot take their records', async () => {
    const adapter = await startPolicyAdapter(owner, () => ({}));
    await apply(
      ...ADAPTER_DOCUMENTS,
      document('handler', 'court', {
        adapter: 'court.mesh-system',
        connection: { address: adapter.address, timeout: '5s' },
      }),
      document('instance', 'note', { template: 'notes.mesh-system', params: { user: USER } }),
      rule('noted', { actions: [{ handler: 'court', instances: ['note'] }] }),
    );
    await eventually(
      async () => {
        assert.equal(await outcome('web', user('ann')), 'app');
        assert.ok(adapter.asked.length > 0);
      },
      { timeoutMs: PATIENCE_MS },
    );
    adapter.kill();
    assert.equal(await outcome('web', user('ann')), 'app');
    await eventually(
      async () => {
        const { body } = await request({ port: shared.get().discovery().ports.monitoring, path: '/metrics' });
        assert.match(body, /^plc_runtime_dispatches_total\{adapter="remote",error="true"\} [1-9]/m);
      },
      { timeoutMs: PATIENCE_MS },
    );
  });
});
