import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ecKey, type KeyPair, makeCa, rsaKey } from '../../security/authority/testing/fixtures.ts';
import { parseResource } from '../parsing/parse.ts';

const pem = (keys: KeyPair, type: 'pkcs8' | 'sec1' | 'pkcs1' = 'pkcs8') =>
  keys.privateKey.export({ format: 'pem', type: type as 'pkcs8' }).toString();

const root = makeCa({ name: 'root' });
const leaf = makeCa({ name: 'leaf', issuer: root, authority: false });
const other = makeCa({ name: 'other', issuer: root, authority: false });
const rsa = rsaKey(2048);
const rsaLeaf = makeCa({ name: 'rsa', issuer: root, authority: false, key: rsa });
const weak = rsaKey(1024);
const weakLeaf = makeCa({ name: 'weak', issuer: root, authority: false, key: weak });
const oddCurve = ecKey('secp256k1');
const CRL = '-----BEGIN X509 CRL-----\nMIIB\n-----END X509 CRL-----\n';
const ENCRYPTED = leaf.keys.privateKey
  .export({ format: 'pem', type: 'pkcs8', cipher: 'aes-256-cbc', passphrase: 'x' })
  .toString();

const base64 = (text: string) => Buffer.from(text).toString('base64');
const inBase64 = (entries: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(entries).map(([name, text]) => [name, base64(text)]));

/** `''` for a Secret that is accepted, else the field and the reason. */
function validationErrorOf(body: object): string {
  const document = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 's', namespace: 'edge' }, ...body };
  const parsed = parseResource(document, { source: 'test' }, () => undefined);
  return 'problem' in parsed ? `${parsed.problem.field}: ${parsed.problem.message}` : '';
}

const tls = (entries: Readonly<Record<string, string>>) =>
  validationErrorOf({ type: 'kubernetes.io/tls', data: inBase64(entries) });
const opaque = (entries: Readonly<Record<string, string>>) =>
  validationErrorOf({ type: 'Opaque', data: inBase64(entries) });

describe('Secrets with which gateways can serve TLS are accepted', () => {
  const pair = { 'tls.crt': leaf.certificate, 'tls.key': leaf.key };
  const good: readonly (readonly [behaviour: string, fault: string])[] = [
    ['a key pair', tls(pair)],
    ['a chain', tls({ ...pair, 'tls.crt': leaf.certificate + root.certificate })],
    ['an RSA key, written the older way', tls({ 'tls.crt': rsaLeaf.certificate, 'tls.key': pem(rsa, 'pkcs1') })],
    ['an EC key, written the older way', tls({ ...pair, 'tls.key': pem(leaf.keys, 'sec1') })],
    ['authorities beside it', tls({ ...pair, 'ca.crt': root.certificate, 'ca.crl': CRL })],
    ['no authorities yet', tls({ ...pair, 'ca.crt': '' })],
    ['a key pair by other names', opaque({ cert: leaf.certificate, key: leaf.key, cacert: root.certificate })],
    ['authorities alone', opaque({ cacert: root.certificate })],
    ['text in the clear', validationErrorOf({ stringData: pair })],
    [
      'text in the clear over what is encoded',
      validationErrorOf({ data: inBase64({ ...pair, 'tls.key': 'x' }), stringData: pair }),
    ],
  ];
  for (const [behaviour, refusal] of good) test(`${behaviour}`, () => assert.equal(refusal, ''));
});

describe('Secrets for other purposes are not checked', () => {
  const others: readonly (readonly [behaviour: string, fault: string])[] = [
    ['passwords', opaque({ username: 'admin', password: 'x' })],
    ['an entry named key', opaque({ key: 'x' })],
    ['no entries', validationErrorOf({ type: 'Opaque' })],
    [
      'a token of a service account',
      validationErrorOf({ type: 'kubernetes.io/service-account-token', data: { 'ca.crt': 'eA==', token: 'eA==' } }),
    ],
    [
      'another type with the same names',
      validationErrorOf({ type: 'example.com/keys', data: { 'tls.crt': 'eA==', 'tls.key': 'eA==' } }),
    ],
  ];
  for (const [behaviour, refusal] of others) test(behaviour, () => assert.equal(refusal, ''));
});

describe('Secrets that Envoy would refuse are refused', () => {
  const pair = { 'tls.crt': leaf.certificate, 'tls.key': leaf.key };
  const bad: readonly (readonly [behaviour: string, fault: string, line: RegExp])[] = [
    [
      'another key',
      tls({ ...pair, 'tls.key': other.key }),
      /^data\["tls.key"\]: expected the key of the certificate in tls.crt$/,
    ],
    [
      'no key',
      tls({ 'tls.crt': leaf.certificate }),
      /^data: expected a certificate \(tls.crt\) and its key \(tls.key\)$/,
    ],
    ['entries that will be filled later', tls({ 'tls.crt': '', 'tls.key': leaf.key }), /^data: expected a certificate/],
    [
      'a certificate cut short',
      tls({ ...pair, 'tls.crt': leaf.certificate.slice(0, 200) }),
      /^data\["tls.crt"\]: expected certificates in PEM form$/,
    ],
    [
      'a broken second certificate',
      tls({ ...pair, 'tls.crt': `${leaf.certificate}${root.certificate.replace('MII', 'AAA')}` }),
      /^data\["tls.crt"\]: expected certificates in PEM form$/,
    ],
    [
      'a broken key',
      tls({ ...pair, 'tls.key': leaf.key.replace('MIG', 'AAA') }),
      /^data\["tls.key"\]: expected a private key in PEM form, not encrypted$/,
    ],
    ['an encrypted key', tls({ ...pair, 'tls.key': ENCRYPTED }), /not encrypted$/],
    [
      'a short RSA key',
      tls({ 'tls.crt': weakLeaf.certificate, 'tls.key': pem(weak) }),
      /^data\["tls.key"\]: expected an RSA key of 2048 bits or more/,
    ],
    ['a curve that Envoy does not take', tls({ ...pair, 'tls.key': pem(oddCurve) }), /curve P-256, P-384 or P-521$/],
    [
      'no base64',
      validationErrorOf({ type: 'kubernetes.io/tls', data: { ...inBase64(pair), 'tls.crt': '%' } }),
      /^data\["tls.crt"\]: expected base64$/,
    ],
    [
      'by other names',
      opaque({ cert: leaf.certificate, key: other.key }),
      /^data.key: expected the key of the certificate in cert$/,
    ],
    ['in the clear', validationErrorOf({ stringData: { ...pair, 'tls.key': other.key } }), /^stringData\["tls.key"\]/],
    ['authorities', tls({ ...pair, 'ca.crt': 'x' }), /^data\["ca.crt"\]: expected certificates in PEM form$/],
    [
      'a list of what is revoked',
      opaque({ cacert: root.certificate, crl: 'x' }),
      /^data.crl: expected a revocation list in PEM form$/,
    ],
    [
      'too long',
      tls({ ...pair, 'tls.crt': `${leaf.certificate}${'-----BEGIN CERTIFICATE-----'.repeat(50_000)}` }),
      /expected at most 1048576 bytes$/,
    ],
  ];
  for (const [behaviour, refusal, line] of bad) test(behaviour, () => assert.match(refusal, line));
});

test('messages quote nothing of a Secret', () => {
  const secret = leaf.key.slice(40, 100);
  const said = [
    validationErrorOf({ type: 'kubernetes.io/tls', data: secret }),
    validationErrorOf({ data: { key: Number(1234567890123) } }),
    validationErrorOf({ stringData: [secret] }),
    validationErrorOf({ type: { secret }, data: { a: secret } }),
    opaque({ cert: secret, key: secret }),
    JSON.stringify(parseResource(leaf.key, { source: 'test' }, () => undefined)),
  ];
  for (const text of said) {
    assert.notEqual(text, '');
    for (let at = 0; at + 12 <= secret.length; at += 4) assert.ok(!text.includes(secret.slice(at, at + 12)), text);
    assert.ok(!text.includes('1234567890123'));
  }
});
