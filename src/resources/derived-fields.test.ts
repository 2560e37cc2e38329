/** What only derived documents can have: no document of a user has their names, refers to them, or has their fields. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseResource } from './parsing/parse.ts';

const API = 'networking.mesh.io/v1alpha3';
const SECRET = { namespace: 'bank', name: 'pair' };

function parsed(kind: string, spec: object, name = 'a') {
  return parseResource(
    { apiVersion: API, kind, metadata: { name, namespace: 'b' }, spec },
    { source: 'test' },
    () => 1,
  );
}

const port = { number: 443, name: 'https', protocol: 'HTTPS' };
const gateway = (tls: object = {}, rest: object = {}) => ({
  selector: { app: 'gw' },
  servers: [{ port, hosts: ['*'], tls: { mode: 'SIMPLE', credentialName: 'own', ...tls } }],
  ...rest,
});
const routes = (route: object) => ({ hosts: ['a.example'], gateways: ['gw'], ...route });
const http = (rule: object) => routes({ http: [{ route: [{ destination: { host: 'x' } }], ...rule }] });

test('no document has the name of a derived one, or is bound to it', () => {
  assert.ok('problem' in parsed('Gateway', gateway(), 'gateway-api~public~http'));
  assert.ok('resource' in parsed('VirtualService', http({})));
  const bound = { ...http({}), gateways: ['edge/gateway-api~public~http'] };
  assert.ok('problem' in parsed('VirtualService', bound));
  const match = [{ gateways: ['edge/gateway-api~public~http'] }];
  assert.ok('problem' in parsed('VirtualService', http({ match })));
});

test('fields of derived documents in a document of a user do not count', () => {
  const rows: readonly [kind: string, without: object, spec: object][] = [
    ['Gateway', gateway(), gateway({}, { ownNamespace: true, isolated: true, clientKeyPair: SECRET })],
    ['Gateway', gateway(), gateway({ keyPairs: [SECRET], clientAuthorities: 'pem', closed: 'x' })],
    [
      'VirtualService',
      http({ match: [{ method: { exact: 'GET' } }] }),
      http({ match: [{ method: { exact: 'GET' }, pathPrefix: '/a' }] }),
    ],
    ['VirtualService', http({}), http({ route: [{ destination: { host: 'x' }, unusable: true }] })],
    [
      'VirtualService',
      http({ route: undefined, redirect: { uri: '/a' } }),
      http({
        route: undefined,
        redirect: { uri: '/a', impliedPort: 1, uriPrefix: '/b', uriRegexRewrite: { match: 'a', rewrite: 'b' } },
      }),
    ],
    [
      'VirtualService',
      routes({ tcp: [{ route: [{ destination: { host: 'x' } }] }] }),
      routes({ tcp: [{ route: [{ destination: { host: 'x' }, unusable: true }] }] }),
    ],
    [
      'DestinationRule',
      { host: 'x', trafficPolicy: { tls: { mode: 'SIMPLE' } } },
      { host: 'x', gatewaysOnly: true, trafficPolicy: { tls: { mode: 'SIMPLE', authorities: 'pem', unusable: true } } },
    ],
  ];
  for (const [kind, without, spec] of rows) {
    const expected = parsed(kind, without);
    assert.ok('resource' in expected, JSON.stringify(expected));
    const result = parsed(kind, spec);
    // Refused as a whole, or without the fields.
    if ('resource' in result) assert.deepEqual(result.resource.content, expected.resource.content);
    else assert.ok('problem' in result);
  }
});
