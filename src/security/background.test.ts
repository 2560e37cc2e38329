/**
 * Values that are fetched in the background: an issuer's keys and foreign bundles, with a fake clock and a fake
 * network.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { CtlError } from '../core/errors.ts';
import { fakeClock } from './authority/testing/fixtures.ts';
import type { Fetch } from './fetch-json.ts';
import { followOidcIssuer } from './oidc.ts';
import { followBundles, parseBundle, parseBundleEndpoints } from './spiffe-bundles.ts';
import { derOf, ISSUER, makeCa, NOW, testIssuer } from './testing/credentials.ts';
import { TrustBundles } from './trust.ts';

const DISCOVERY = `${ISSUER}/.well-known/openid-configuration`;
const JWKS = `${ISSUER}/keys`;

/** Documents by URL; a function makes the whole response, and other URLs are unreachable. */
function network(documents: Record<string, unknown>): { fetch: Fetch; readonly asked: string[] } {
  const asked: string[] = [];
  const fetch: Fetch = async (url, init) => {
    assert.equal(init.redirect, 'manual');
    asked.push(url);
    const document = documents[url];
    if (document === undefined) throw new TypeError('fetch failed', { cause: new Error('connect ECONNREFUSED') });
    return typeof document === 'function' ? document() : Response.json(document);
  };
  return { fetch, asked };
}

const MINUTE = 60_000;

async function issuerOf(documents: Record<string, unknown>) {
  const { fetch, asked } = network(documents);
  const { clock, advance } = fakeClock();
  const problems: string[] = [];
  const issuer = followOidcIssuer({
    issuer: ISSUER,
    fetch,
    clock,
    random: () => 0.5,
    onProblem: (error: CtlError) => problems.push(error.message),
  });
  await issuer.started;
  return { issuer, asked, problems, advance };
}

describe('the keys of an OIDC issuer', () => {
  it('are found through its discovery document, and followed', async () => {
    const [one, two] = [await testIssuer('one'), await testIssuer('two')];
    const documents: Record<string, unknown> = { [DISCOVERY]: { issuer: ISSUER, jwks_uri: JWKS }, [JWKS]: one.jwks };
    const { issuer, advance, problems, asked } = await issuerOf(documents);
    assert.deepEqual(await issuer.keys.keys(), one.jwks);
    documents[JWKS] = two.jwks;
    await advance(11 * MINUTE);
    assert.deepEqual(await issuer.keys.keys(), two.jwks);
    // The issuer becomes unreachable: the last good keys stay, and the failure is reported once.
    delete documents[DISCOVERY];
    await advance(60 * MINUTE);
    assert.deepEqual(await issuer.keys.keys(), two.jwks);
    assert.deepEqual(problems, [`${DISCOVERY}: connect ECONNREFUSED`]);
    issuer.close();
    const before = asked.length;
    await advance(60 * MINUTE);
    assert.equal(asked.length, before);
  });

  it('are fetched at once for an unknown one, but not for each', async () => {
    const [one, two] = [await testIssuer('one'), await testIssuer('two')];
    const documents: Record<string, unknown> = { [DISCOVERY]: { issuer: ISSUER, jwks_uri: JWKS }, [JWKS]: one.jwks };
    const { issuer, asked, advance } = await issuerOf(documents);
    documents[JWKS] = two.jwks;
    assert.deepEqual(await issuer.keys.newerKeys(), two.jwks);
    const fetched = asked.length;
    for (let i = 0; i < 100; i++) await issuer.keys.newerKeys();
    assert.equal(asked.length, fetched);
    await advance(10_000);
    await issuer.keys.newerKeys();
    assert.equal(asked.length, fetched + 2);
    issuer.close();
  });

  const BAD: readonly (readonly [string, Record<string, unknown>, RegExp])[] = [
    ['it cannot be reached', {}, /ECONNREFUSED$/],
    [
      'it redirects',
      { [DISCOVERY]: () => new Response('', { status: 302 }) },
      /returned HTTP 302, redirects are not followed$/,
    ],
    ['it answers an error', { [DISCOVERY]: () => new Response('', { status: 500 }) }, /returned HTTP 500$/],
    ['it answers HTML', { [DISCOVERY]: () => new Response('<html>') }, /did not return JSON$/],
    [
      'it answers without end',
      { [DISCOVERY]: () => new Response('1'.repeat(600_000)) },
      /returned more than 524288 bytes$/,
    ],
    [
      'its document is of another',
      { [DISCOVERY]: { issuer: 'https://x', jwks_uri: JWKS } },
      /another issuer, "https:\/\/x"$/,
    ],
    ['its document lacks the keys', { [DISCOVERY]: { issuer: ISSUER } }, /is not a discovery document$/],
    ['its keys are in plain text', { [DISCOVERY]: { issuer: ISSUER, jwks_uri: 'http://x/keys' } }, /must use https/],
    [
      'its keys are on our machine',
      { [DISCOVERY]: { issuer: ISSUER, jwks_uri: 'http://127.0.0.1/' } },
      /must use https$/,
    ],
    ['it has no keys', { [DISCOVERY]: { issuer: ISSUER, jwks_uri: JWKS }, [JWKS]: { keys: [] } }, /is not a key set$/],
  ];
  for (const [what, documents, reason] of BAD)
    it(`are not known when ${what}, and are tried for again`, async () => {
      const { issuer, problems, advance, asked } = await issuerOf(documents);
      // Unknown callers see this message: it must not disclose anything of the network.
      const message = 'the keys of its issuer are not known yet';
      await assert.rejects(issuer.keys.keys(), { code: 'unavailable', message });
      assert.match(problems[0] ?? '', reason);
      const one = await testIssuer();
      Object.assign(documents, { [DISCOVERY]: { issuer: ISSUER, jwks_uri: JWKS }, [JWKS]: one.jwks });
      const before = asked.length;
      await advance(1200);
      assert.ok(asked.length > before);
      assert.deepEqual(await issuer.keys.keys(), one.jwks);
      issuer.close();
    });

  it('are requested less and less often after failures', async () => {
    const { issuer, asked, advance } = await issuerOf({});
    await advance(30 * MINUTE);
    assert.ok(asked.length > 8 && asked.length < 20, String(asked.length));
    issuer.close();
  });

  it('must not be fetched from an issuer in plain text', () => {
    const options = { fetch, clock: fakeClock().clock, random: () => 0, onProblem: () => {} };
    for (const issuer of [
      'http://issuer.example',
      'issuer.example',
      'file:///keys',
      'https://me:secret@issuer.example',
    ])
      assert.throws(() => followOidcIssuer({ issuer, ...options }), { code: 'invalid_argument' });
  });
});

describe('SPIFFE_BUNDLE_ENDPOINTS', () => {
  it('is tuples of a trust domain and a URL', () => {
    const read = (text: string) =>
      parseBundleEndpoints(text).map(({ trustDomain, url }) => `${trustDomain} ${url.href}`);
    assert.deepEqual(read(''), []);
    assert.deepEqual(read('a.example|https://a.example/b||b|https://b:8443'), [
      'a.example https://a.example/b',
      'b https://b:8443/',
    ]);
  });

  const BAD = ['a', '|https://a', 'A|https://a', 'a|', 'a|http://a', 'a|https://a||', 'a|https://a|https://b c'];
  for (const text of BAD)
    it(`refuses ${JSON.stringify(text)} and tells what is expected`, () => {
      assert.throws(() => parseBundleEndpoints(text), /expected <trust_domain>\|<endpoint_url>/);
    });
});

const x5c = (name: string) => [derOf(makeCa({ name })).toString('base64')];

describe('a SPIFFE bundle', () => {
  it('has the roots of its keys for X.509, and the time of the next refresh', () => {
    const keys = [
      { use: 'x509-svid', kty: 'EC', x5c: x5c('one') },
      { use: 'jwt-svid', kty: 'EC', kid: 'x' },
      { use: 'x509-svid', kty: 'RSA', x5c: x5c('two') },
    ];
    const { value, refreshMs } = parseBundle({ spiffe_sequence: 1, spiffe_refresh_hint: 600, keys });
    assert.equal(value.length, 2);
    assert.equal(refreshMs, 600_000);
    assert.equal(parseBundle({ keys }).refreshMs, 300_000);
    assert.equal(parseBundle({ spiffe_refresh_hint: 0.001, keys }).refreshMs, 10_000);
  });

  const BAD: readonly (readonly [string, unknown])[] = [
    ['nothing', null],
    ['no keys', { keys: [] }],
    ['keys for tokens only', { keys: [{ use: 'jwt-svid' }] }],
    ['a key without certificate', { keys: [{ use: 'x509-svid' }] }],
    ['two certificates for a key', { keys: [{ use: 'x509-svid', x5c: [...x5c('a'), ...x5c('b')] }] }],
    ['something else as certificate', { keys: [{ use: 'x509-svid', x5c: ['AAAA'] }] }],
    [
      'a certificate of no authority',
      { keys: [{ use: 'x509-svid', x5c: [derOf(makeCa({ name: 'x', authority: false })).toString('base64')] }] },
    ],
  ];
  for (const [what, document] of BAD)
    it(`is refused with ${what}`, () => assert.throws(() => parseBundle(document), { code: 'unavailable' }));

  it('applies to its own trust domain, and stays when its endpoint becomes unreachable', async () => {
    const url = 'https://other.example/bundle';
    const documents: Record<string, unknown> = { [url]: { keys: [{ use: 'x509-svid', x5c: x5c('one') }] } };
    const { clock, advance } = fakeClock(NOW);
    const trust = new TrustBundles();
    const problems: string[] = [];
    const { started, close } = followBundles({
      endpoints: parseBundleEndpoints(`other.example|${url}`),
      trust,
      fetch: network(documents).fetch,
      clock,
      random: () => 0.5,
      onProblem: (error) => problems.push(error.message),
    });
    await started;
    const [first] = trust.roots('other.example');
    assert.ok(first !== undefined);
    assert.deepEqual(trust.roots('cluster.local'), []);
    documents[url] = { keys: [] };
    await advance(10 * MINUTE);
    assert.deepEqual(trust.roots('other.example'), [first]);
    assert.deepEqual(problems, [`trust bundle of other.example: ${url}: has no key for x509-svid`]);
    documents[url] = { keys: [{ use: 'x509-svid', x5c: x5c('two') }] };
    await advance(10 * MINUTE);
    assert.equal(trust.roots('other.example').length, 1);
    assert.notDeepEqual(trust.roots('other.example'), [first]);
    close();
  });
});
