import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync, randomBytes } from 'node:crypto';
import { describe, it } from 'node:test';
import { sequence } from '../asn1/index.ts';
import { CtlError } from '../core/errors.ts';
import * as fc from '../core/testing/properties.ts';
import { spki } from './authority/testing/fixtures.ts';
import { createCertificateAuthenticator } from './certificate-authenticator.ts';
import {
  type Ca,
  DAY_MS,
  derOf,
  ecKey,
  extension,
  type LeafOptions,
  makeCa,
  makeLeaf,
  NOW,
  rootsOf,
  SERVER_AUTH,
  unknownExtension,
  WEB_URI,
} from './testing/credentials.ts';
import { TrustBundles } from './trust.ts';

const root = makeCa({ name: 'root' });
const foreign = makeCa({ name: 'foreign' });
const trust = new TrustBundles();
trust.set('cluster.local', 'mesh', rootsOf(root));
trust.set('other.example', 'bundle', rootsOf(foreign));

let now = NOW;
const authenticator = createCertificateAuthenticator({ trust, now: () => now });

/** The identity, or the reason of the refusal. */
async function outcome(...certificates: readonly Uint8Array[]): Promise<string> {
  try {
    const caller = await authenticator.authenticate({ certificates, bearer: undefined, peer: 'test' });
    if (caller === undefined) return 'not asked';
    const { trustDomain, namespace, serviceAccount } = caller.identity;
    return `${trustDomain}/${namespace}/${serviceAccount} by ${caller.by}`;
  } catch (error) {
    assert.ok(error instanceof CtlError && error.code === 'unauthenticated', String(error));
    return error.message;
  }
}

const leaf = (changes: Partial<LeafOptions> = {}): Buffer => makeLeaf({ issuer: root, ...changes });
const WEB = 'cluster.local/shop/web by certificate';

describe('a client certificate', () => {
  it('proves the identity of its one URI', async () => {
    assert.equal(await outcome(leaf()), WEB);
    assert.equal(await outcome(leaf({ dnsNames: ['web.shop.svc'] })), WEB);
    assert.equal(await outcome(leaf(), derOf(root)), WEB);
  });

  it('is not verified when there is none', async () => assert.equal(await outcome(), 'not asked'));

  const REFUSED: readonly (readonly [string, Partial<LeafOptions>, RegExp])[] = [
    ['has expired', { notAfter: NOW - 1000 }, /^it expired at 2026-/],
    ['is not valid yet', { notBefore: NOW + 60_000 }, /^it is not valid before/],
    ['has no URI', { uris: [] }, /^it has 0 URIs/],
    ['has two URIs', { uris: [WEB_URI, 'spiffe://cluster.local/ns/bank/sa/admin'] }, /^it has 2 URIs/],
    ['has the same URI twice', { uris: [WEB_URI, WEB_URI] }, /^it has 2 URIs/],
    [
      'has another kind of URI',
      { uris: ['https://cluster.local/ns/shop/sa/web'] },
      /is not the identity of a workload$/,
    ],
    ['has a URI with a longer path', { uris: [`${WEB_URI}/x`] }, /is not the identity of a workload$/],
    ['is for servers only', { usages: [SERVER_AUTH] }, /^its extended key usage does not include client/],
    ['does not say what it is for', { usages: [] }, /^its extended key usage does not include client/],
    ['is one of an authority', { ca: true }, /^it is a CA certificate/],
    ['may sign certificates', { keyUsage: [2, 0x84] }, /^it is a CA certificate/],
    ['may not sign anything', { keyUsage: [5, 0x20] }, /^its key usage does not include digital signatures/],
    ['is restricted in an unknown way', { extra: [unknownExtension(true)] }, /critical extension/],
    ['is of a stranger', { issuer: makeCa({ name: 'stranger' }) }, /^it is not signed by a trusted root/],
    [
      'is of a stranger with the name of the root',
      { signer: ecKey('P-256').privateKey },
      /^it is not signed by a trusted root/,
    ],
    [
      'is of an unknown trust domain',
      { uris: ['spiffe://else.example/ns/a/sa/b'] },
      /^trust domain else.example is unknown/,
    ],
    ['of another mesh names itself into ours', { issuer: foreign }, /^it is not signed by a trusted root/],
    [
      'of this mesh has an identity of another one',
      { uris: ['spiffe://other.example/ns/a/sa/b'] },
      /^it is not signed by a trusted root/,
    ],
  ];
  for (const [what, changes, reason] of REFUSED)
    it(`is refused when it ${what}`, async () => assert.match(await outcome(leaf(changes)), reason));

  it('of another mesh proves an identity of that mesh', async () => {
    const theirs = leaf({ issuer: foreign, uris: ['spiffe://other.example/ns/a/sa/b'] });
    assert.equal(await outcome(theirs), 'other.example/a/b by certificate');
  });

  it('with an unknown extension that is not critical is accepted, unless it was changed', async () => {
    const good = leaf({ extra: [unknownExtension(false)] });
    assert.equal(await outcome(good), WEB);
    const forged = Buffer.from(good);
    const at = forged.indexOf('ns/shop');
    forged.write('ns/bank', at, 'latin1');
    assert.match(await outcome(forged), /^it is not signed by a trusted root/);
  });

  it('of arbitrary bytes is refused', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (bytes) => {
        assert.equal(await outcome(bytes), 'it cannot be read');
      }),
    );
    const good = leaf();
    await fc.assert(
      fc.asyncProperty(fc.nat(good.length - 1), fc.integer({ min: 1, max: 255 }), async (at, change) => {
        const changed = Buffer.from(good);
        changed[at] = (changed[at] ?? 0) ^ change;
        assert.notEqual(await outcome(changed), WEB);
      }),
    );
  });
});

describe('a chain of certificates', () => {
  const middle = (name: string, issuer: Ca, changes = {}): Ca => makeCa({ name, issuer, ...changes });
  const one = middle('one', root);

  it('leads to a root through intermediates in any order', async () => {
    const two = middle('two', one);
    const end = leaf({ issuer: two });
    assert.equal(await outcome(end, derOf(two), derOf(one)), WEB);
    assert.equal(await outcome(end, derOf(one), derOf(two), derOf(root)), WEB);
    assert.match(await outcome(end, derOf(two)), /^it is not signed by a trusted root/);
  });

  it('is refused when an intermediate may not sign', async () => {
    const cases: readonly (readonly [Ca, RegExp])[] = [
      [middle('no-authority', root, { authority: false }), /^it is not signed by a trusted root/],
      [middle('no-signing', root, { keyUsage: [7, 0x80] }), /^it is not signed by a trusted root/],
      [middle('expired', root, { notAfter: NOW - DAY_MS }), /^an intermediate certificate expired/],
    ];
    for (const [issuer, reason] of cases)
      assert.match(await outcome(leaf({ issuer }), derOf(issuer)), reason, issuer.name);
  });

  it('is refused when it is longer than an authority in it allows', async () => {
    const short = middle('short', root, { pathLength: 0 });
    assert.equal(await outcome(leaf({ issuer: short }), derOf(short)), WEB);
    const below = middle('below', short);
    assert.match(
      await outcome(leaf({ issuer: below }), derOf(below), derOf(short)),
      /^it is not signed by a trusted root/,
    );
  });

  it('is refused when a workload’s certificate is used as an authority', async () => {
    const keys = ecKey('P-256');
    const parent = { ...root, name: 'parent', keys };
    const child = makeLeaf({ issuer: parent, uris: ['spiffe://cluster.local/ns/bank/sa/admin'] });
    assert.match(await outcome(child, leaf({ keys, name: 'parent' })), /^it is not signed by a trusted root/);
    const allowed = leaf({ keys, name: 'parent', ca: true, keyUsage: [1, 0x06] });
    assert.equal(await outcome(child, allowed), 'cluster.local/bank/admin by certificate');
  });

  it('is refused when it is very long', async () => {
    const all = [root];
    for (let i = 0; i < 6; i++) all.push(middle(`level-${i}`, all.at(-1) ?? root));
    const end = leaf({ issuer: all.at(-1) ?? root });
    assert.match(await outcome(end, ...all.slice(1).map(derOf)), /^more than 4 intermediate/);
    assert.match(await outcome(end, ...Array<Buffer>(20).fill(derOf(one))), /^more than 10 certificates/);
  });

  it('is refused when an intermediate has a restriction that is not understood', async () => {
    const keys = ecKey('P-256');
    const between = (...extra: ReturnType<typeof extension>[]): Buffer =>
      leaf({ keys, name: 'between', ca: true, keyUsage: [1, 0x06], extra });
    const child = makeLeaf({ issuer: { ...root, name: 'between', keys } });
    assert.equal(await outcome(child, between()), WEB);
    const nameConstraints = '2.5.29.30';
    assert.match(
      await outcome(child, between(extension(nameConstraints, sequence()))),
      /^it is not signed by a trusted root/,
    );
    assert.match(await outcome(child, between(unknownExtension(true))), /^it is not signed by a trusted root/);
  });
});

describe('an intermediate certificate that was seen before', () => {
  const seen = makeCa({ name: 'seen', issuer: root, notAfter: NOW + 3_600_000 });
  const shown = (): Promise<string> => outcome(leaf({ issuer: seen }), derOf(seen));

  it('is refused with another leaf once it has expired, and once its root is not trusted any more', async () => {
    assert.equal(await shown(), WEB);
    now = NOW + 3_600_000;
    assert.match(await shown(), /^an intermediate certificate expired/);
    now = NOW;
    assert.equal(await shown(), WEB);
    trust.set('cluster.local', 'mesh', rootsOf(foreign));
    assert.match(await shown(), /^it is not signed by a trusted root/);
    trust.set('cluster.local', 'mesh', rootsOf(root));
    assert.equal(await shown(), WEB);
  });

  it('does not verify a leaf in its name that another key has signed', async () => {
    assert.equal(await shown(), WEB);
    const forged = leaf({ issuer: seen, signer: ecKey('P-256').privateKey });
    assert.match(await outcome(forged, derOf(seen)), /^it is not signed by a trusted root/);
  });

  it('is not accepted as a leaf, nor for a client that does not present it', async () => {
    assert.match(await outcome(derOf(seen)), /^it is a CA certificate/);
    assert.match(await outcome(leaf({ issuer: seen })), /^it is not signed by a trusted root/);
  });
});

describe('the work that unknown clients cause', () => {
  /** A public key of this size without a private half. */
  const hugeKey = (bits: number, exponent: string): Buffer => {
    const n = randomBytes(bits / 8);
    n[0] = 0xff;
    const e = Buffer.from(exponent, 'hex').toString('base64url');
    return spki(createPublicKey({ key: { kty: 'RSA', n: n.toString('base64url'), e }, format: 'jwk' }));
  };
  const withKey = (publicKey: Buffer, changes: Partial<LeafOptions> = {}): Buffer => {
    const keys = { ...ecKey('P-256'), publicKey: createPublicKey({ key: publicKey, format: 'der', type: 'spki' }) };
    return leaf({ keys, ...changes });
  };

  it('does not grow with the keys that they present', async () => {
    const reason = /is neither RSA of at most \d+ bits nor on a supported curve/;
    assert.match(await outcome(withKey(hugeKey(8192, '010001'))), reason);
    const authority = { name: 'huge', ca: true, keyUsage: [1, 0x06] } as const;
    for (const key of [hugeKey(16_384, '010001'), hugeKey(2048, 'ffffffffffffffff')])
      assert.match(await outcome(leaf({ issuer: { ...root, name: 'huge' } }), withKey(key, authority)), reason);
    const odd = generateKeyPairSync('ec', { namedCurve: 'secp256k1' });
    assert.match(await outcome(leaf({ keys: odd })), reason);
    assert.equal(await outcome(leaf({ keys: ecKey('P-384') })), WEB);
  });

  it('is done once for each chain, until the roots change or a short time has passed', async () => {
    let asked = 0;
    const counted = new TrustBundles();
    const roots = counted.roots.bind(counted);
    counted.roots = (domain) => {
      asked++;
      return roots(domain);
    };
    let at = NOW;
    const own = createCertificateAuthenticator({ trust: counted, now: () => at });
    const certificates = [leaf()];
    const attempt = () => own.authenticate({ certificates: [...certificates], bearer: undefined, peer: '' });
    for (let i = 0; i < 3; i++) await assert.rejects(attempt(), /trust domain \S+ is unknown/);
    assert.equal(asked, 1);
    at += 5000;
    await assert.rejects(attempt(), /trust domain \S+ is unknown/);
    assert.equal(asked, 2);
    counted.set('cluster.local', 'mesh', rootsOf(root));
    assert.equal((await attempt())?.identity.namespace, 'shop');
  });
});

describe('a verified certificate', () => {
  it('is refused once it has expired, and once its root is not trusted any more', async () => {
    const certificate = leaf();
    assert.equal(await outcome(certificate), WEB);
    now = NOW + 2 * DAY_MS;
    assert.match(await outcome(certificate), /^it expired/);
    now = NOW;
    assert.equal(await outcome(certificate), WEB);
    const next = makeCa({ name: 'next' });
    trust.set('cluster.local', 'mesh', rootsOf(next, root));
    assert.equal(await outcome(certificate), WEB);
    assert.equal(await outcome(leaf({ issuer: next })), WEB);
    trust.set('cluster.local', 'mesh', rootsOf(next));
    assert.match(await outcome(certificate), /^it is not signed by a trusted root/);
    trust.set('cluster.local', 'mesh', rootsOf(root));
  });

  it('ends with the first certificate of its chain', async () => {
    const short = makeCa({ name: 'short-lived', issuer: root, notAfter: NOW + 5000 });
    const certificates = [leaf({ issuer: short }), derOf(short)];
    const caller = await authenticator.authenticate({ certificates, bearer: undefined, peer: '' });
    assert.equal(caller?.expiresAt, NOW + 5000);
    assert.match(await outcome(randomBytes(10)), /cannot be read/);
  });
});
