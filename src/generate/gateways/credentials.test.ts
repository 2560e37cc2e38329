import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { applyChanges } from '../../model/testing/steps.ts';
import type { Snapshot } from '../../model/types/types.ts';
import { envoy } from '../../protobuf/index.ts';
import { type AnyResource, keyOf, resourceKey } from '../../resources/kinds/types.ts';
import { generate } from '../generate.ts';
import { affectedUnits } from '../testing/affected-units.ts';
import { viewOf } from '../testing/gateways.ts';
import { meshOf, meshResource, parsed } from '../testing/mesh.ts';
import type { GatewayView } from '../views.ts';

const { DownstreamTlsContext, Secret } = envoy.extensions.transport_sockets.tls.v3;
const { Listener } = envoy.config.listener.v3;

const certs = new URL('../../../test/golden-harness/certs/', import.meta.url);
const [CERTIFICATE = '', KEY = '', AUTHORITIES = ''] = ['tls.crt', 'tls.key', 'ca.crt'].map((name) =>
  readFileSync(new URL(name, certs), 'utf8'),
);
const PAIR = { 'tls.crt': CERTIFICATE, 'tls.key': KEY };
const ALL = { cds: 'all', sds: 'all', lds: 'all', rds: 'all' } as const;
const VIEW = viewOf({ credentialed: ['edge/gw'] });

const secret = (name: string, stringData: object, namespace = 'edge', type = 'Opaque') =>
  parsed({ apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace }, type, stringData });

const https = (name: string, tls: object, hosts = ['*']) => ({
  port: { number: 443, name, protocol: 'HTTPS' },
  hosts,
  tls: { mode: 'SIMPLE', ...tls },
});

const gateway = (...servers: readonly object[]) =>
  meshResource('Gateway', 'edge', 'gw', { selector: { app: 'gw' }, servers });

const mesh = (...resources: readonly AnyResource[]): Snapshot => meshOf(resources);

function output(snapshot: Snapshot, view: GatewayView = VIEW) {
  const { units, failures, findings } = generate(snapshot, view, ALL);
  assert.deepEqual(failures, []);
  const of = (type: 'sds' | 'lds') => [...(units[type]?.values() ?? [])].flat();
  const chains = of('lds').flatMap(({ bytes }) => Listener.decode(bytes).filterChains);
  return {
    secrets: new Map(of('sds').map(({ name, bytes }) => [name, Secret.decode(bytes)])),
    chains,
    contexts: chains.flatMap(({ transportSocket }) =>
      transportSocket?.typedConfig ? [DownstreamTlsContext.decode(transportSocket.typedConfig.value)] : [],
    ),
    findings: findings.map(({ message }) => message),
  };
}

const text = (bytes: Uint8Array | null | undefined) => Buffer.from(bytes ?? []).toString();

describe('a server whose certificate is a Secret', () => {
  test('requests it over the stream of the listener', () => {
    const { secrets, contexts, findings } = output(
      mesh(gateway(https('a', { credentialName: 'c' })), secret('c', PAIR)),
    );
    const [config] = contexts[0]?.commonTlsContext?.tlsCertificateSdsSecretConfigs ?? [];
    assert.equal(config?.name, 'kubernetes://c');
    assert.ok(config?.sdsConfig?.ads);
    assert.equal(contexts[0]?.requireClientCertificate?.value, false);
    const { tlsCertificate, name } = secrets.get('kubernetes://c') ?? {};
    assert.equal(name, 'kubernetes://c');
    assert.equal(text(tlsCertificate?.certificateChain?.inlineBytes), CERTIFICATE);
    assert.equal(text(tlsCertificate?.privateKey?.inlineBytes), KEY);
    assert.equal(tlsCertificate?.ocspStaple, null);
    assert.deepEqual(findings, []);
  });

  test('has the OCSP staple of the Secret', () => {
    const { secrets } = output(
      mesh(gateway(https('a', { credentialName: 'c' })), secret('c', { ...PAIR, 'tls.ocsp-staple': 'x' })),
    );
    assert.equal(text(secrets.get('kubernetes://c')?.tlsCertificate?.ocspStaple?.inlineBytes), 'x');
  });

  const authorities: readonly (readonly [
    behaviour: string,
    tls: object,
    secrets: readonly AnyResource[],
    sds: string,
  ])[] = [
    ['beside its certificate', { credentialName: 'c' }, [secret('c', { ...PAIR, 'ca.crt': AUTHORITIES })], 'c-cacert'],
    [
      'in a Secret apart',
      { credentialName: 'c' },
      [secret('c', PAIR), secret('c-cacert', { cacert: AUTHORITIES })],
      'c-cacert',
    ],
    [
      'apart before those beside',
      { credentialName: 'c' },
      [secret('c', { ...PAIR, 'ca.crt': `${AUTHORITIES}# wider` }), secret('c-cacert', { cacert: AUTHORITIES })],
      'c-cacert',
    ],
    [
      'by a name of their own',
      { credentialName: 'c', caCertCredentialName: 'd' },
      [secret('c', PAIR), secret('d', { 'ca.crt': AUTHORITIES })],
      'd-cacert',
    ],
    [
      'by the whole of their name',
      { credentialName: 'c', caCertCredentialName: 'd-cacert' },
      [secret('c', PAIR), secret('d-cacert', { 'ca.crt': AUTHORITIES })],
      'd-cacert',
    ],
    [
      'beside certificates in files',
      { serverCertificate: '/c', privateKey: '/k', caCertCredentialName: 'd' },
      [secret('d', { 'ca.crt': AUTHORITIES })],
      'd-cacert',
    ],
  ];
  for (const [behaviour, tls, secrets, sds] of authorities) {
    test(`finds the CA certificates of its clients ${behaviour}`, () => {
      const result = output(mesh(gateway(https('a', { mode: 'MUTUAL', subjectAltNames: ['x'], ...tls })), ...secrets));
      const { combinedValidationContext } = result.contexts[0]?.commonTlsContext ?? {};
      assert.equal(combinedValidationContext?.validationContextSdsSecretConfig?.name, `kubernetes://${sds}`);
      assert.equal(combinedValidationContext?.defaultValidationContext?.matchTypedSubjectAltNames.length, 1);
      assert.equal(result.contexts[0]?.requireClientCertificate?.value, true);
      const { trustedCa } = result.secrets.get(`kubernetes://${sds}`)?.validationContext ?? {};
      assert.equal(text(trustedCa?.inlineBytes), AUTHORITIES);
    });
  }

  test('requests one of several key types', () => {
    const server = https('a', { credentialNames: ['c', 'd'] });
    const { secrets, contexts } = output(mesh(gateway(server), secret('c', PAIR), secret('d', PAIR)));
    const configs = contexts[0]?.commonTlsContext?.tlsCertificateSdsSecretConfigs ?? [];
    assert.deepEqual(
      configs.map(({ name }) => name),
      ['kubernetes://c', 'kubernetes://d'],
    );
    assert.deepEqual([...secrets.keys()], ['kubernetes://c', 'kubernetes://d']);
  });
});

describe('names of credentials', () => {
  for (const name of ['c', 'kubernetes://c', 'edge/c', 'kubernetes://edge/c', 'kubernetes-gateway://edge/c']) {
    test(`${name} is a Secret of the gateway's namespace`, () => {
      const { secrets } = output(mesh(gateway(https('a', { credentialName: name })), secret('c', PAIR)));
      assert.deepEqual([...secrets.keys()], ['kubernetes://c']);
    });
  }
  for (const name of [
    'shop/c',
    'kubernetes://shop/c',
    'kubernetes-gateway://shop/c',
    'kubernetes://edge/../shop/c',
    'kubernetes-gateway://edge/shop/c',
    '/c',
    '../shop/c',
    'Secret/shop/c',
    'kubernetes://kubernetes://c',
    'KUBERNETES://c',
    'configmap://c',
    'file-cert:/c~/k',
    'edge\n/c',
    'c\u0000',
    '*',
    'c-cacert',
  ]) {
    test(`${JSON.stringify(name)} is refused`, () => {
      const forms = [{ credentialName: name }, { credentialNames: ['c', name] }];
      const ca = { mode: 'MUTUAL', credentialName: 'c', caCertCredentialName: name };
      for (const tls of name === 'c-cacert' ? forms : [...forms, ca]) {
        const all = [secret('c', PAIR), secret('c', PAIR, 'shop'), secret('c-cacert', PAIR)];
        const { secrets, chains, findings } = output(mesh(gateway(https('a', tls)), ...all));
        assert.equal(secrets.size, 0);
        assert.deepEqual(chains, []);
        assert.match(findings.join(), /^Gateway edge\/gw, server a: credential .* is denied: .*$/);
      }
    });
  }
});

describe('an unavailable certificate', () => {
  const other = https('b', { serverCertificate: '/c', privateKey: '/k' });
  const rows: readonly (readonly [behaviour: string, secrets: readonly AnyResource[], tls: object, finding: RegExp])[] =
    [
      ['no Secret', [], {}, /waits for Secret edge\/c, which does not exist or cannot be read$/],
      ['one of another namespace', [secret('c', PAIR, 'shop')], {}, /waits for Secret edge\/c/],
      [
        'something else',
        [secret('c', { password: 'x' })],
        {},
        /Secret edge\/c has no key pair \(tls.crt and tls.key, or cert and key\)$/,
      ],
      ['no authorities', [secret('c', PAIR)], { mode: 'MUTUAL' }, /Secret edge\/c has no CA certificates for clients/],
      [
        'no second Secret',
        [secret('c', PAIR)],
        { mode: 'MUTUAL', caCertCredentialName: 'd' },
        /waits for the CA certificates of its clients in Secret edge\/d or/,
      ],
      [
        'empty authorities apart',
        [secret('c', { ...PAIR, 'ca.crt': AUTHORITIES }), secret('c-cacert', {})],
        { mode: 'MUTUAL' },
        /Secret edge\/c-cacert has no CA certificates/,
      ],
    ];
  for (const [behaviour, secrets, tls, finding] of rows) {
    test(`${behaviour}: connections to its names are closed, the port's other servers are served`, () => {
      const server = https('a', { credentialName: 'c', ...tls }, ['a.example']);
      const result = output(mesh(gateway(server, other), ...secrets));
      const [closed, open] = result.chains;
      assert.deepEqual(
        [closed?.filterChainMatch?.serverNames, closed?.filters, closed?.transportSocket],
        [['a.example'], [], null],
      );
      assert.ok((open?.filters.length ?? 0) > 0);
      assert.match(result.findings.join(), finding);
      assert.equal(result.secrets.size, 0);
      assert.deepEqual(output(mesh(gateway(server), ...secrets)).chains, []);
    });
  }

  test('is not sent to a proxy that is not authenticated as the gateway', () => {
    const { secrets, chains, findings } = output(
      mesh(gateway(https('a', { credentialName: 'c' })), secret('c', PAIR)),
      viewOf(),
    );
    assert.deepEqual([secrets.size, chains.length], [0, 0]);
    assert.match(
      findings.join(),
      /Secrets are not sent, because the proxy is not authenticated as a workload of namespace edge/,
    );
  });
});

describe('the units that a change of Secrets touches', () => {
  const server = https('a', { credentialName: 'c' });
  const mutual = https('m', { mode: 'MUTUAL', credentialName: 'c' }, ['m.example']);
  function touched(before: readonly AnyResource[], after: AnyResource | string, view = VIEW) {
    const previous = mesh(...before);
    previous.gatewayScope(view.namespace);
    const key = typeof after === 'string' ? after : keyOf(after);
    const next = typeof after === 'string' ? undefined : after;
    const { snapshot, changes } = applyChanges(previous, { changes: [{ key, before: undefined, after: next }] });
    const selection = affectedUnits(previous, snapshot, changes, view);
    return (
      selection &&
      Object.fromEntries(
        Object.entries(selection).map(([type, units]) => [type, units === 'all' ? 'all' : [...units].sort()]),
      )
    );
  }
  const renewed = secret('c', { ...PAIR, 'tls.crt': `${CERTIFICATE}# renewed` });

  test('another certificate: the secret only', () => {
    assert.deepEqual(touched([gateway(server), secret('c', PAIR)], renewed), { sds: ['kubernetes://c'] });
  });
  test('the first, and the last: its port as well', () => {
    assert.deepEqual(touched([gateway(server)], renewed), { sds: ['kubernetes://c'], lds: ['443'] });
    const gone = resourceKey('Secret', 'edge', 'c');
    assert.deepEqual(touched([gateway(server), renewed], gone), { sds: ['kubernetes://c'], lds: ['443'] });
  });
  test('other authorities: everything that uses them', () => {
    const before = [gateway(server, mutual), secret('c', { ...PAIR, 'ca.crt': AUTHORITIES })];
    const apart = secret('c-cacert', { cacert: `${AUTHORITIES}# apart` });
    assert.deepEqual(touched(before, apart), { sds: ['kubernetes://c-cacert'] });
  });
  test('nothing, where the view does not use it', () => {
    assert.equal(touched([gateway(server), renewed], secret('d', PAIR)), undefined);
    assert.equal(touched([gateway(server), renewed], secret('c', PAIR, 'shop')), undefined);
    assert.equal(touched([gateway(server)], renewed, viewOf()), undefined);
  });
  test('a Gateway with other names: all of its secrets', () => {
    const changed = touched([gateway(server), renewed], gateway(server, mutual));
    assert.equal(changed?.sds, 'all');
  });
});
