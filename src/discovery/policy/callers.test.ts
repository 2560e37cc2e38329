/** A proxy asks and records for the namespace that its certificate proves, whatever it claims. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { CtlError } from '../../core/errors.ts';
import { POLICY_NAMESPACE_METADATA } from '../../core/proxy.ts';
import type { CallHead } from '../../grpc/index.ts';
import type { Authentication } from '../../security/index.ts';
import { PolicyCallers } from './callers.ts';

function call(address: string, claims: readonly string[], secured = false): CallHead {
  return {
    path: '/',
    metadata: { get: (name) => (name === POLICY_NAMESPACE_METADATA ? claims : []) },
    connection: { peer: `${address}:1`, address, secured: secured ? ({} as TLSSocket) : undefined },
  };
}

function callers(authenticate: Authentication['authenticate'], time = { now: 0 }): PolicyCallers {
  return new PolicyCallers({ authenticate }, { monotonic: () => time.now, wall: () => time.now });
}

const identity = { trustDomain: 'td', namespace: 'shop', serviceAccount: 'web' };

test('the certificate decides about the namespace, and a claim of another one has no effect', async () => {
  const known = callers(async () => ({ identity, by: 'certificate', expiresAt: 60_000 }));
  const { namespace, principal, key } = await known.verify(call('10.0.0.1', ['other'], true));
  assert.deepEqual([namespace, principal, key], ['shop', 'td/ns/shop/sa/web', 'spiffe://td/ns/shop/sa/web']);
});

test('a caller without a valid certificate is refused on the secured address, even from this machine', async () => {
  const known = callers(() => Promise.reject(new CtlError('unauthenticated', 'no certificate')));
  const head = call('127.0.0.1', ['shop'], true);
  assert.equal(known.known(head), undefined);
  await assert.rejects(known.verify(head), { code: 'unauthenticated' });
});

test('a connection is authenticated again after a while, and when its certificate has expired', async () => {
  const time = { now: 0 };
  let [count, expiresAt] = [0, 60_000];
  const known = callers(async () => {
    count++;
    return { identity, by: 'certificate', expiresAt };
  }, time);
  const head = call('10.0.0.1', [], true);
  const record = await known.verify(head);
  assert.equal(known.known(head), record);
  time.now = 10_001;
  assert.equal(known.known(head), undefined);
  expiresAt = 10_100;
  assert.equal(await known.verify(head), record);
  time.now = 10_100;
  assert.equal(known.known(head), undefined);
  assert.equal(count, 2);
});

test('a token proves the caller of its own call only, and not of further calls on the connection', async () => {
  const tokens = ['shop', 'other'];
  const known = callers(async () => {
    const namespace = tokens.shift();
    if (namespace === undefined) throw new CtlError('unauthenticated', 'no token');
    return { identity: { ...identity, namespace }, by: 'token', expiresAt: 60_000 };
  });
  const head = call('10.0.0.1', [], true);
  for (const namespace of ['shop', 'other']) {
    assert.equal((await known.verify(head)).namespace, namespace);
    assert.equal(known.known(head), undefined);
  }
  await assert.rejects(known.verify(head), { code: 'unauthenticated' });
});

test('without TLS, programs of this machine name their namespace, and others are refused', async () => {
  const known = callers(() => assert.fail());
  assert.equal(known.known(call('127.0.0.1', ['shop']))?.namespace, 'shop');
  assert.equal((await known.verify(call('::1', ['shop']))).principal, undefined);
  for (const head of [
    call('10.0.0.1', ['shop']),
    // Connections that a sidecar forwards: their callers are remote.
    call('127.0.0.6', ['shop']),
    call('127.0.0.1', []),
    call('127.0.0.1', ['shop', 'other']),
    call('127.0.0.1', ['../shop']),
  ])
    await assert.rejects(known.verify(head), { code: 'unauthenticated' });
});
