import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseConfigSource } from './config-source.ts';
import { parseMeshConfig } from './mesh-config.ts';
import { fieldPath } from './parsing/issues.ts';

test('the addresses of sources of configuration', () => {
  assert.deepEqual(parseConfigSource('fs:///etc/mesh/rules'), { kind: 'directory', directory: '/etc/mesh/rules' });
  assert.deepEqual(parseConfigSource('k8s://'), { kind: 'cluster' });
  assert.deepEqual(parseConfigSource('k8s:///'), { kind: 'cluster' });
  assert.deepEqual(parseConfigSource('xds://nacos.mesh:18848'), { kind: 'xds', host: 'nacos.mesh', port: 18848 });
  assert.deepEqual(parseConfigSource('galley.istio-system.svc:9901'), {
    kind: 'mcp',
    host: 'galley.istio-system.svc',
    port: 9901,
  });
  assert.deepEqual(parseConfigSource('[fd00::1]:9901'), { kind: 'mcp', host: 'fd00::1', port: 9901 });
  const others = ['', 'galley', 'galley:0', 'galley:65536', 'http://galley:80', 'fs://rules', 'k8s://east', 'xds://a'];
  for (const address of others) assert.equal(parseConfigSource(address), undefined, address);
});

/** The first problem of a mesh configuration with these sources. */
function problemOf(...configSources: object[]): string {
  const parsed = parseMeshConfig({ configSources });
  return 'problem' in parsed ? `${fieldPath(parsed.problem.path)}: ${parsed.problem.message}` : '';
}

test('sources of configuration that cannot be read are refused with what was expected', () => {
  const address = 'a:1';
  const files = { clientCertificate: '/c', privateKey: '/k', caCertificates: '/ca' };
  assert.equal(problemOf({ address }, { address: 'fs:///rules' }, { address: 'k8s://' }, { address: 'xds://b:2' }), '');
  for (const tlsSettings of [
    { mode: 'DISABLE' },
    { mode: 'ISTIO_MUTUAL', subjectAltNames: ['b'] },
    { mode: 'SIMPLE', caCertificates: '/ca', sni: 'c' },
    { mode: 'MUTUAL', ...files },
  ])
    assert.equal(problemOf({ address, tlsSettings }), '');
  const rows: [sources: object[], problem: RegExp][] = [
    [[{ address: 'http://a' }], /^configSources\[0\].address: expected fs:\/\/\/DIRECTORY, .* got "http:\/\/a"$/],
    [[{ address }, { address }], /^configSources\[1\].address: expected each address once/],
    [[{}], /^configSources\[0\].address: required/],
    [
      [{ address, tlsSettings: { mode: 'SIMPLE' } }],
      /^configSources\[0\].tlsSettings.caCertificates: required for mode/,
    ],
    [[{ address, tlsSettings: { ...files, mode: 'MUTUAL', privateKey: '' } }], /tlsSettings.privateKey: required/],
    [[{ address, tlsSettings: { mode: 'SIMPLE', credentialName: 'a' } }], /credentialName: not supported/],
    [[{ address, tlsSettings: { mode: 'SIMPLE', caCrl: '/a' } }], /tlsSettings.caCrl: not supported/],
    [[{ address, tlsSettings: { mode: 'SIMPLE', insecureSkipVerify: true } }], /insecureSkipVerify: expected false/],
    [[{ address: 'k8s://', tlsSettings: {} }], /^configSources\[0\].tlsSettings: expected none/],
    [Array.from({ length: 17 }, (_, index) => ({ address: `a:${index + 1}` })), /expected at most 16 sources, got 17/],
  ];
  for (const [sources, problem] of rows) assert.match(problemOf(...sources), problem);
});
