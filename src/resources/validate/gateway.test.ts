import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseResource } from '../parsing/parse.ts';

/** Why a server with these TLS settings is refused: `field: message`; undefined when it is accepted. */
function refusal(tls: object): string | undefined {
  const server = {
    port: { number: 443, name: 'https', protocol: 'HTTPS' },
    hosts: ['*'],
    tls: { mode: 'SIMPLE', serverCertificate: '/c', privateKey: '/k', ...tls },
  };
  const document = {
    apiVersion: 'networking.mesh.io/v1alpha3',
    kind: 'Gateway',
    metadata: { name: 'g', namespace: 'n' },
    spec: { servers: [server] },
  };
  const parsed = parseResource(document, { source: 'test' }, () => undefined);
  return 'problem' in parsed ? `${parsed.problem.field}: ${parsed.problem.message}` : undefined;
}

const HASH = 'ab'.repeat(32);
const SPKI = `${'A'.repeat(43)}=`;

describe('TLS of a gateway server', () => {
  const taken: readonly [string, object][] = [
    ['a cipher suite that Envoy knows', { cipherSuites: ['ECDHE-RSA-AES128-GCM-SHA256', 'AES256-SHA'] }],
    ['one version', { minProtocolVersion: 'TLSV1_3', maxProtocolVersion: 'TLSV1_3' }],
    ['a lowest version without a highest', { minProtocolVersion: 'TLSV1_3', maxProtocolVersion: 'TLS_AUTO' }],
    ['old versions that are asked for', { minProtocolVersion: 'TLSV1_0', maxProtocolVersion: 'TLSV1_1' }],
    ['hashes', { verifyCertificateHash: [HASH, HASH.replaceAll('ab', 'ab:').slice(0, -1)] }],
    ['keys', { verifyCertificateSpki: [SPKI] }],
  ];
  for (const [what, tls] of taken) test(`${what}: taken`, () => assert.equal(refusal(tls), undefined));

  const refused: readonly [string, object, RegExp][] = [
    ['an unknown cipher suite', { cipherSuites: ['AES256-SHA', 'NO-SUCH'] }, /cipherSuites\[1\]: .*got "NO-SUCH"/],
    ['a cipher suite of TLS 1.3', { cipherSuites: ['TLS_AES_128_GCM_SHA256'] }, /those of TLS 1\.3 are always on/],
    ['a suite in lower case', { cipherSuites: ['aes256-sha'] }, /cipherSuites\[0\]/],
    ['an unknown version', { minProtocolVersion: 'TLSV1_4' }, /tls\.minProtocolVersion: /],
    ['versions the wrong way', { minProtocolVersion: 'TLSV1_3', maxProtocolVersion: 'TLSV1_2' }, /minProtocolVersion/],
    ['a highest version below the default lowest', { maxProtocolVersion: 'TLSV1_1' }, /maxProtocolVersion: .*TLSV1_2/],
    ['a hash that is none', { verifyCertificateHash: ['abc'] }, /verifyCertificateHash\[0\]: .*64 hexadecimal/],
    ['a key that is none', { verifyCertificateSpki: [HASH] }, /verifyCertificateSpki\[0\]: .*44 characters/],
    ['half a pair', { tlsCertificates: [{ serverCertificate: '/c' }] }, /tlsCertificates\[0\]\.privateKey: required/],
  ];
  for (const [what, tls, message] of refused) {
    test(`${what}: refused in one line`, () => {
      const said = refusal(tls) ?? 'taken';
      assert.match(said, message);
      assert.doesNotMatch(said, /\n/);
    });
  }
});
