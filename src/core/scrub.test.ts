import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { REDACTED } from './redact.ts';
import { scrubJson, scrubSettings, scrubText } from './scrub.ts';

describe('what looks like a credential', () => {
  for (const [what, text] of [
    ['a private key', '-----BEGIN EC PRIVATE KEY-----\nS3cret\n-----END EC PRIVATE KEY-----'],
    ['a private key in JSON', '"-----BEGIN PRIVATE KEY-----\\nS3cret\\n-----END PRIVATE KEY-----\\n"'],
    ['half a private key', '-----BEGIN PRIVATE KEY-----\nS3cret'],
    ['a JSON Web Token', 'token eyJhbGciOiJub25lIn0.S3cret.S3cret is expired'],
    ['a bearer token', 'authorization: Bearer S3cret123'],
    ['the password of a URL', 'cannot GET https://me:S3cret@issuer.example/keys'],
    ['a named value', 'password=S3cret, more'],
    ['a named value in quotes', '{\\"client_secret\\": \\"S3cret\\"}'],
    ['a named value with spaces', '{"x-session": "some S3cret, a \\"S3cret\\" one"}'],
    ['a named value without end', 'jwt: "some S3cret'],
    ['a named value in a string', '{"message": "credential: S3cret"}'],
    ['an authorization', 'authorization: Digest username="me", response="S3cret"'],
    ['cookies', 'set-cookie: id=S3cret; more=S3cret\nthe end'],
    ['a header in a message of Envoy', 'invalid header { key: "authorization" value: "S3cret" } in'],
    ['a header in a message of Envoy in JSON', '{"text": "{ key: \\"x-api-key\\" raw_value: \\"some S3cret\\" }"}'],
    ['a key in a message of Envoy', 'invalid private_key { inline_string: "S3cret and\nS3cret" }'],
    ['a signature', 'GET /x?a=b&signature=S3cret'],
  ] as const) {
    test(`${what} is removed from texts`, () => {
      const scrubbed = scrubText(`before ${text} after`);
      assert.doesNotMatch(scrubbed, /S3cret/);
      assert.match(scrubbed, /^before .*\[redacted\]/s);
    });
  }

  for (const text of [
    'web.shop rejects cds: no such cluster outbound|80||reviews.shop.svc.cluster.local at 10.0.0.1:15012',
    'credentialName: web-cert, key: VirtualService/shop/web, token: [redacted]',
    'secret { name: "default" } header { key: "x-request-id" value: "17" }',
    // Work that grows with the square of the length would not end in time.
    'a.'.repeat(500_000),
    `no: ${'- '.repeat(500_000)}`,
  ])
    test(`other texts stay: ${text.slice(0, 40)}`, () => assert.equal(scrubText(text), text));

  test('is removed from JSON by the names of members and of entries', () => {
    const value = {
      password: 'S3cret',
      tokens: ['S3cret', { id: 'one', text: 'Bearer S3cret' }],
      headers: [
        { key: 'authorization', value: 'S3cret' },
        { header: { key: 'x-api-key', rawValue: 'S3cret' } },
        { name: 'accept', value: 'all' },
      ],
      privateKey: { inlineString: 'S3cret' },
      credentialName: 'web-cert',
      code: { inlineString: 'return 1' },
      tokenLifetime: 5,
    };
    assert.deepEqual(scrubJson(value), {
      password: REDACTED,
      tokens: [REDACTED, { id: 'one', text: `Bearer ${REDACTED}` }],
      headers: [
        { key: 'authorization', value: REDACTED },
        { header: { key: 'x-api-key', rawValue: REDACTED } },
        { name: 'accept', value: 'all' },
      ],
      privateKey: { inlineString: REDACTED },
      credentialName: 'web-cert',
      code: { inlineString: 'return 1' },
      tokenLifetime: 5,
    });
  });

  test('is removed from settings by name; paths of files stay', () => {
    const settings = [
      { name: 'SOME_TOKEN', value: 'S3cret' },
      { name: 'CTL_DEBUG_TOKEN_FILE', value: '/var/run/token' },
      { name: 'httpAddr', value: ':8080' },
    ];
    const [token, file, address] = scrubSettings(settings) as { value: string }[];
    assert.deepEqual([token?.value, file?.value, address?.value], ['[redacted]', '/var/run/token', ':8080']);
  });
});
