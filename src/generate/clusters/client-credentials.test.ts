/** Client certificates of gateways from Secrets. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { envoy } from '../../protobuf/index.ts';
import type { AnyResource } from '../../resources/kinds/types.ts';
import { generate } from '../generate.ts';
import { viewOf } from '../testing/gateways.ts';
import { meshOf, meshResource, parsed } from '../testing/mesh.ts';
import type { OutboundView, View } from '../views.ts';

const { Cluster } = envoy.config.cluster.v3;
const { UpstreamTlsContext, Secret } = envoy.extensions.transport_sockets.tls.v3;

const HOST = 'api.example.com';
const CLUSTER = `outbound|443||${HOST}`;
const EVERYTHING = { cds: 'all', sds: 'all', lds: 'all', rds: 'all' } as const;

const certs = new URL('../../../test/golden-harness/certs/', import.meta.url);
const [CERTIFICATE = '', KEY = ''] = ['tls.crt', 'tls.key'].map((name) => readFileSync(new URL(name, certs), 'utf8'));
const PAIR = { 'tls.crt': CERTIFICATE, 'tls.key': KEY };
const ALL = { ...PAIR, 'ca.crt': CERTIFICATE };

const GATEWAY = viewOf({ clientCredentials: true });
const SIDECAR: OutboundView = {
  part: 'outbound',
  scope: 'edge/',
  namespace: 'edge',
  interception: 'REDIRECT',
  families: 'ipv4',
  sourceLabels: {},
  dnsDomain: 'edge.svc.cluster.local',
  virtualHosts: 'inline',
  endpointNames: 'cluster',
  capabilities: { extensions: undefined, sds: false },
};

const mesh = (kind: string, spec: object) => meshResource(kind, 'default', 'api', spec);

const ENTRY = mesh('ServiceEntry', {
  hosts: [HOST],
  ports: [{ number: 443, name: 'tls', protocol: 'TLS' }],
  resolution: 'STATIC',
  endpoints: [{ address: '192.0.2.1' }],
});
const secret = (name: string, stringData: object, namespace = 'edge') =>
  parsed({ apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace }, stringData });

function output(tls: object, secrets: readonly AnyResource[], view: View = GATEWAY) {
  const rule = mesh('DestinationRule', { host: HOST, trafficPolicy: { tls: { credentialName: 'c', ...tls } } });
  const snapshot = meshOf([ENTRY, rule, ...secrets]);
  snapshot.scopeOf('edge', {});
  const { units, findings, failures } = generate(snapshot, view, EVERYTHING);
  assert.deepEqual(failures, []);
  const cluster = [...(units.cds?.values() ?? [])].flat().find(({ name }) => name === CLUSTER);
  assert.ok(cluster);
  const { type, transportSocket } = Cluster.decode(cluster.bytes);
  return {
    eds: type === 3,
    context:
      transportSocket?.typedConfig && UpstreamTlsContext.decode(transportSocket.typedConfig.value).commonTlsContext,
    secrets: [...(units.sds?.values() ?? [])].flat().map(({ bytes }) => Secret.decode(bytes)),
    findings: findings.map(({ message }) => message),
  };
}

test('MUTUAL presents the key pair and verifies with the authorities of the Secret', () => {
  const { eds, context, secrets, findings } = output({ mode: 'MUTUAL', subjectAltNames: ['x'] }, [secret('c', ALL)]);
  assert.equal(eds, true);
  assert.deepEqual(
    context?.tlsCertificateSdsSecretConfigs.map(({ name }) => name),
    ['kubernetes://c'],
  );
  const { combinedValidationContext: combined } = context ?? {};
  assert.equal(combined?.validationContextSdsSecretConfig?.name, 'kubernetes://c-cacert');
  assert.ok(combined?.validationContextSdsSecretConfig?.sdsConfig?.ads);
  assert.equal(combined?.defaultValidationContext?.matchTypedSubjectAltNames[0]?.matcher?.exact, 'x');
  assert.deepEqual(
    secrets.map(({ name }) => name),
    ['kubernetes://c', 'kubernetes://c-cacert'],
  );
  assert.deepEqual(findings, []);
});

test('SIMPLE presents nothing and verifies with the authorities', () => {
  const { context, secrets } = output({ mode: 'SIMPLE' }, [
    secret('c', PAIR),
    secret('c-cacert', { cacert: CERTIFICATE }),
  ]);
  assert.deepEqual(context?.tlsCertificateSdsSecretConfigs, []);
  assert.deepEqual(
    secrets.map(({ name }) => name),
    ['kubernetes://c-cacert'],
  );
});

test('a revocation list in a file applies together with the authorities of the Secret', () => {
  const { context } = output({ mode: 'SIMPLE', caCrl: '/revoked.pem' }, [secret('c', ALL)]);
  const { defaultValidationContext } = context?.combinedValidationContext ?? {};
  assert.equal(defaultValidationContext?.crl?.filename, '/revoked.pem');
});

test('insecureSkipVerify verifies nothing and requests no authorities', () => {
  const { context, secrets } = output({ mode: 'MUTUAL', insecureSkipVerify: true }, [secret('c', PAIR)]);
  assert.equal(context?.combinedValidationContext, null);
  assert.deepEqual(
    secrets.map(({ name }) => name),
    ['kubernetes://c'],
  );
});

describe('an unavailable credential gives a cluster without endpoints, never weaker TLS', () => {
  const rows: readonly (readonly [
    behaviour: string,
    tls: object,
    secrets: readonly AnyResource[],
    view: View,
    finding: RegExp,
  ])[] = [
    ['no Secret', { mode: 'MUTUAL' }, [], GATEWAY, /waits for a key pair in Secret edge\/c$/],
    [
      'no authorities',
      { mode: 'MUTUAL' },
      [secret('c', PAIR)],
      GATEWAY,
      /waits for CA certificates in Secret edge\/c$/,
    ],
    [
      'a Secret of another namespace',
      { mode: 'SIMPLE' },
      [secret('c', ALL, 'default')],
      GATEWAY,
      /waits for CA certificates/,
    ],
    [
      'a name with another namespace',
      { mode: 'MUTUAL', credentialName: 'default/c' },
      [secret('c', ALL), secret('c', ALL, 'default')],
      GATEWAY,
      /"default\/c" is denied/,
    ],
    [
      'a proxy without an authenticated identity',
      { mode: 'MUTUAL' },
      [secret('c', ALL)],
      viewOf(),
      /is not authenticated as a gateway of namespace edge$/,
    ],
    ['a sidecar', { mode: 'MUTUAL' }, [secret('c', ALL)], SIDECAR, /tls.credentialName applies to gateways only/],
  ];
  for (const [behaviour, tls, secrets, view, finding] of rows) {
    test(behaviour, () => {
      const made = output(tls, secrets, view);
      assert.deepEqual([made.eds, made.context, made.secrets], [false, undefined, []]);
      assert.match(made.findings.join(), finding);
    });
  }
});
