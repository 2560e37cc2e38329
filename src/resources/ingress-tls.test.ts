import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { checkDocument, parseResource } from './index.ts';

const PORT = 'port: {number: 8443, protocol: HTTPS, name: https}';
const FILES = 'serverCertificate: /c, privateKey: /k';

function sidecar(ingress: string): object {
  return {
    apiVersion: 'networking.mesh.io/v1alpha3',
    kind: 'Sidecar',
    metadata: { name: 'a', namespace: 'n' },
    spec: { ingress: parse(`[${ingress}]`) as unknown, egress: [{ hosts: ['./*'] }] },
  };
}

function parsed(ingress: string) {
  const result = parseResource(sidecar(ingress), { source: 'test' }, () => undefined);
  assert.ok('resource' in result && result.resource.kind === 'Sidecar', JSON.stringify(result));
  return result.resource;
}

describe('TLS of an ingress listener', () => {
  const acted: readonly string[] = [
    `{${PORT}}`,
    `{${PORT}, tls: {mode: SIMPLE, ${FILES}}}`,
    `{${PORT}, tls: {mode: SIMPLE, ${FILES}, caCertificates: /ca, minProtocolVersion: TLSV1_3}}`,
    `{${PORT}, tls: {mode: MUTUAL, ${FILES}, caCertificates: /ca, subjectAltNames: [a.example]}}`,
    `{${PORT}, tls: {mode: OPTIONAL_MUTUAL, ${FILES}, caCertificates: /ca, caCrl: /crl}}`,
    `{${PORT}, tls: {mode: SIMPLE, tlsCertificates: [{${FILES}}]}}`,
    `{port: {number: 8443, protocol: tls, name: a}, tls: {mode: SIMPLE, ${FILES}}}`,
  ];
  for (const ingress of acted) {
    test(`is acted on: ${ingress}`, () => {
      const { warnings, content } = parsed(ingress);
      assert.equal(warnings, undefined);
      assert.equal(content.ingress?.[0]?.tls?.closed, undefined);
      assert.deepEqual(checkDocument(sidecar(ingress))?.errors, []);
    });
  }

  const rows: readonly (readonly [ingress: string, field: string, message: RegExp])[] = [
    [`{port: {number: 8443, protocol: HTTP, name: a}, tls: {mode: SIMPLE, ${FILES}}}`, 'port.protocol', /HTTPS or TLS/],
    [`{${PORT}, tls: {}}`, 'tls.mode', /^expected SIMPLE, MUTUAL or OPTIONAL_MUTUAL;/],
    [`{${PORT}, tls: {mode: PASSTHROUGH}}`, 'tls.mode', /got PASSTHROUGH/],
    [`{${PORT}, tls: {mode: ISTIO_MUTUAL}}`, 'tls.mode', /got MESH_MUTUAL/],
    [`{${PORT}, tls: {mode: AUTO_PASSTHROUGH}}`, 'tls.mode', /got AUTO_PASSTHROUGH/],
    [`{${PORT}, tls: {mode: SIMPLE, credentialName: a}}`, 'tls.credentialName', /cannot read Secrets/],
    [`{${PORT}, tls: {mode: SIMPLE, credentialNames: [a]}}`, 'tls.credentialNames', /cannot read Secrets/],
    [
      `{${PORT}, tls: {mode: MUTUAL, ${FILES}, caCertificates: /ca, caCertCredentialName: a}}`,
      'tls.caCertCredentialName',
      /cannot read Secrets/,
    ],
    [`{${PORT}, tls: {mode: SIMPLE, ${FILES}, httpsRedirect: true}}`, 'tls.httpsRedirect', /do not redirect/],
    [`{${PORT}, tls: {mode: SIMPLE, ${FILES}, subjectAltNames: [a]}}`, 'tls.subjectAltNames', /requires mode MUTUAL/],
    [`{${PORT}, tls: {mode: MUTUAL, ${FILES}}}`, 'tls.caCertificates', /required/],
    [`{${PORT}, tls: {mode: MUTUAL, tlsCertificates: [{${FILES}}]}}`, 'tls.caCertificates', /required/],
    [`{${PORT}, tls: {mode: OPTIONAL_MUTUAL, ${FILES}}}`, 'tls.caCertificates', /required/],
    [`{${PORT}, tls: {mode: SIMPLE, serverCertificate: /c}}`, 'tls.privateKey', /required/],
    [`{${PORT}, tls: {mode: SIMPLE, ${FILES}, cipherSuites: [X]}}`, 'tls.cipherSuites[0]', /expected a cipher suite/],
    // Fields that would restrict, misspelt or left empty by a template.
    [
      `{${PORT}, tls: {mode: MUTUAL, ${FILES}, caCertificates: /ca, subjectAltName: [a]}}`,
      'tls.subjectAltName',
      /^unknown field;/,
    ],
    [
      `{${PORT}, tls: {mode: SIMPLE, ${FILES}, tlsCertificates: [{${FILES}, x: y}]}}`,
      'tls.tlsCertificates[0].x',
      /unknown/,
    ],
    [
      `{${PORT}, tls: {mode: MUTUAL, ${FILES}, caCertificates: /ca, subjectAltNames: }}`,
      'tls.subjectAltNames',
      /^expected a value, got null;/,
    ],
    [`{${PORT}, tls: }`, 'tls', /^expected a value, got null;/],
  ];
  for (const [ingress, field, message] of rows) {
    test(`closes the listener where it cannot be acted on, and refuses a new document: ${ingress}`, () => {
      const other = '{port: {number: 8080, protocol: HTTP, name: http}}';
      const { warnings = [], content } = parsed(`${other}, ${ingress}`);
      assert.deepEqual(
        warnings.map((warning) => warning.field),
        [`spec.ingress[1].${field}`],
      );
      assert.match(warnings[0]?.message ?? '', message);
      assert.match(warnings[0]?.message ?? '', /; clients outside the mesh are denied at port 8443$/);
      const [first, second] = content.ingress ?? [];
      assert.equal(first?.tls, undefined);
      assert.deepEqual(Object.keys(second?.tls ?? {}), ['closed']);
      assert.ok(second?.tls?.closed?.startsWith(`${field}: `), second?.tls?.closed);
      const checked = checkDocument(sidecar(`${other}, ${ingress}`));
      assert.deepEqual(
        checked?.errors.map((error) => error.field),
        [`spec.ingress[1].${field}`],
      );
    });
  }

  test('no document can name the reason itself', () =>
    assert.equal(
      parsed(`{${PORT}, tls: {mode: SIMPLE, ${FILES}, closed: no}}`).content.ingress?.[0]?.tls?.closed,
      'tls.closed: unknown field',
    ));
});
