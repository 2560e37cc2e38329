/** Which listeners of a Gateway are valid, and what its status says of them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { certificates } from '../testing/certificates.ts';
import { documentsOf, setChanges, shown, translated } from '../testing/translated.ts';

const { certificate, key, authorities: pem } = certificates;
const [CERTIFICATE, KEY, AUTHORITIES] = [certificate, key, pem].map((text) => JSON.stringify(text));

const gateway = (listeners: string, rest = '') => `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: edge, generation: 2}
spec:
  gatewayClassName: meshd
  listeners: [${listeners}]
  ${rest}
---
`;

const secret = (namespace: string) => `
apiVersion: v1
kind: Secret
metadata: {name: pair, namespace: ${namespace}}
type: kubernetes.io/tls
stringData: {tls.crt: ${CERTIFICATE}, tls.key: ${KEY}}
---
`;

const authorities = `
apiVersion: v1
kind: ConfigMap
metadata: {name: authorities, namespace: edge}
data: {ca.crt: ${AUTHORITIES}}
---
`;

/** The conditions of listeners that are not as they should be, and the hosts of derived Gateways. */
function listenersOf(yaml: string) {
  const { status, derived } = translated(yaml);
  const { listeners = [], conditions } = status('KubernetesGateway/edge/public') ?? {};
  const good = new Set(['Accepted=True Accepted', 'Programmed=True Programmed', 'ResolvedRefs=True ResolvedRefs']);
  const bad = listeners.map(({ name, conditions: all }) => {
    return [name, ...shown(all).filter((each) => !good.has(each) && each !== 'Conflicted=False NoConflicts')];
  });
  const servers = [...derived.values()].flatMap((document) =>
    document.kind === 'Gateway' ? (document.content.servers ?? []) : [],
  );
  return { bad, servers, conditions: shown(conditions) };
}

const INVALID = 'Programmed=False Invalid';

describe('a listener', () => {
  const rows: readonly [behaviour: string, listeners: string, bad: readonly string[][]][] = [
    [
      'shares its port with others of another hostname',
      '{name: a, port: 80, protocol: HTTP, hostname: a.example}, {name: b, port: 80, protocol: HTTP}',
      [['a'], ['b']],
    ],
    [
      'conflicts with one of the same hostname, and so do both',
      '{name: a, port: 80, protocol: HTTP}, {name: b, port: 80, protocol: HTTP}, {name: c, port: 81, protocol: HTTP}',
      [
        ['a', 'Accepted=False HostnameConflict', INVALID, 'Conflicted=True HostnameConflict'],
        ['b', 'Accepted=False HostnameConflict', INVALID, 'Conflicted=True HostnameConflict'],
        ['c'],
      ],
    ],
    [
      'conflicts with one of another protocol',
      '{name: a, port: 80, protocol: HTTP}, {name: b, port: 80, protocol: TCP}',
      [
        ['a', 'Accepted=False ProtocolConflict', INVALID, 'Conflicted=True ProtocolConflict'],
        ['b', 'Accepted=False ProtocolConflict', INVALID, 'Conflicted=True ProtocolConflict'],
      ],
    ],
    [
      'of a protocol that is not supported is not accepted',
      '{name: a, port: 80, protocol: UDP}',
      [['a', 'Accepted=False UnsupportedProtocol', INVALID]],
    ],
    [
      'that names kinds of routes that it cannot have says so',
      '{name: a, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{kind: HTTPRoute}, {kind: TCPRoute}]}}',
      [['a', 'ResolvedRefs=False InvalidRouteKinds']],
    ],
    [
      'without a certificate is not programmed',
      '{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: missing}]}}',
      [['a', INVALID, 'ResolvedRefs=False InvalidCertificateRef']],
    ],
    [
      'whose certificate has a name that proxies cannot request is not programmed',
      '{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: pair-cacert}]}}',
      [['a', INVALID, 'ResolvedRefs=False InvalidCertificateRef']],
    ],
    [
      'whose certificate is in another namespace needs a ReferenceGrant',
      '{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: pair, namespace: shop}]}}',
      [['a', INVALID, 'ResolvedRefs=False RefNotPermitted']],
    ],
    [
      'with TLS hostnames that overlap says so',
      `{name: a, port: 443, protocol: HTTPS, hostname: '*.example', tls: {certificateRefs: [{name: pair}]}},
       {name: b, port: 443, protocol: HTTPS, hostname: b.example, tls: {certificateRefs: [{name: pair}]}},
       {name: c, port: 443, protocol: HTTPS, hostname: c.other, tls: {certificateRefs: [{name: pair}]}}`,
      [
        ['a', 'OverlappingTLSConfig=True OverlappingHostnames'],
        ['b', 'OverlappingTLSConfig=True OverlappingHostnames'],
        ['c'],
      ],
    ],
  ];
  for (const [behaviour, listeners, bad] of rows) {
    test(behaviour, () => {
      const secrets = secret('edge') + secret('edge').replace('name: pair', 'name: pair-cacert') + secret('shop');
      assert.deepEqual(listenersOf(gateway(listeners) + secrets).bad, bad);
    });
  }

  const HTTPS = '{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: pair}]}}';
  const validation = (refs: string) => `tls: {frontend: {default: {validation: {caCertificateRefs: [${refs}]}}}}`;

  test('verifies clients by the authorities of a ConfigMap', () => {
    const refs = "{group: '', kind: ConfigMap, name: authorities}";
    const { servers, bad } = listenersOf(gateway(HTTPS, validation(refs)) + secret('edge') + authorities);
    assert.deepEqual(bad, [['a']]);
    assert.equal(servers[0]?.tls?.mode, 'MUTUAL');
    assert.equal(servers[0]?.tls?.clientAuthorities, pem);
  });

  test('without authorities to verify clients closes its connections', () => {
    for (const [kind, reason] of [
      ['ConfigMap', 'InvalidCACertificateRef'],
      ['Secret', 'InvalidCACertificateKind'],
    ]) {
      const refs = `{group: '', kind: ${kind}, name: missing}`;
      const { servers, bad } = listenersOf(gateway(HTTPS, validation(refs)) + secret('edge'));
      assert.deepEqual(bad, [['a', 'Accepted=False NoValidCACertificate', INVALID, `ResolvedRefs=False ${reason}`]]);
      assert.match(servers[0]?.tls?.closed ?? '', /^closes its connections: /);
    }
  });
});

describe('the hostname of a listener that is not accepted reaches no wider listener:', () => {
  const TLS = 'tls: {certificateRefs: [{name: pair}]}';
  const listener = (name: string, hostname: string, port: number, rest: string) =>
    `{name: ${name}, hostname: '${hostname}', port: ${port}, ${rest}}`;
  /** A route of all hostnames below example, attached to the listener for them. */
  const route = (kind: string) => `
apiVersion: gateway.networking.k8s.io/v1
kind: ${kind}
metadata: {name: wide, namespace: edge}
spec:
  parentRefs: [{name: public, sectionName: wide}]
  hostnames: ['*.example', a.example]
  rules: [{backendRefs: [{name: web, port: 80}]}]
---
`;
  const hostsOf = (yaml: string) => {
    const documents = [...translated(yaml + secret('edge')).derived.values()];
    const ofKind = <K extends string>(kind: K) => documents.filter((each) => each.kind === kind);
    const servers = ofKind('Gateway').flatMap(({ content }) => ('servers' in content && content.servers) || []);
    const routed = ofKind('VirtualService').flatMap(({ content }) => ('hosts' in content && content.hosts) || []);
    const closed = servers.filter(({ tls }) => tls?.closed !== undefined);
    return { closed, servers: servers.map(({ hosts }) => hosts.join()).sort(), routed: routed.map(String).sort() };
  };
  const [HTTPS, PASSTHROUGH] = [`protocol: HTTPS, ${TLS}`, 'protocol: TLS, tls: {mode: Passthrough}'];
  const rows: readonly [what: string, kind: string, wide: string, others: readonly string[]][] = [
    ['of two with TLS', 'HTTPRoute', HTTPS, [HTTPS, HTTPS]],
    ['of two with TLS that is passed through', 'TLSRoute', PASSTHROUGH, [PASSTHROUGH, PASSTHROUGH]],
    ['of two with different modes of TLS', 'HTTPRoute', HTTPS, [PASSTHROUGH, HTTPS]],
    ['of one with an unsupported mode', 'HTTPRoute', HTTPS, ['protocol: HTTPS, tls: {mode: Passthrough}']],
  ];
  for (const [what, kind, wide, others] of rows) {
    test(`${what}, connections are closed`, () => {
      const narrow = others.map((rest, index) => listener(`n${index}`, 'a.example', 443, rest));
      const all = [listener('wide', '*.example', 443, wide), ...narrow].join();
      const { closed, servers, routed } = hostsOf(gateway(all) + route(kind));
      assert.deepEqual([servers, routed], [['*.example', 'a.example'], ['*.example']]);
      assert.deepEqual(
        closed.map(({ hosts, port, tls }) => [hosts, port.protocol, tls?.mode, tls?.closed?.slice(0, 23)]),
        [[['a.example'], 'HTTPS', 'SIMPLE', 'closes its connections:']],
      );
    });
  }

  test('of two without TLS, requests are answered with 404', () => {
    const [wide, one, two] = [
      ['wide', '*.example'],
      ['a', 'a.example'],
      ['b', 'a.example'],
    ].map(([name = '', hostname = '']) => listener(name, hostname, 80, 'protocol: HTTP'));
    const own = route('HTTPRoute').replace('name: wide', 'name: own').replace(', sectionName: wide', '');
    const yaml = gateway([wide, one, two].join()) + route('HTTPRoute') + own;
    assert.deepEqual(hostsOf(yaml).routed, ['*.example', 'a.example']);
    const narrow = [...translated(yaml).derived.values()].find(
      ({ kind, content }) => kind === 'VirtualService' && 'hosts' in content && content.hosts?.[0] === 'a.example',
    );
    assert.deepEqual(narrow?.kind === 'VirtualService' && narrow.content.http, [{ directResponse: { status: 404 } }]);
  });
});

describe('a Gateway', () => {
  const HTTP = '{name: a, port: 80, protocol: HTTP}';
  const service = (spec: string, status = '{}') => `
apiVersion: v1
kind: Service
metadata: {name: public-meshd, namespace: edge}
spec: ${spec}
status: ${status}
---
`;
  const rows: readonly [behaviour: string, yaml: string, expected: readonly string[]][] = [
    [
      'with a Service that has an address is programmed',
      gateway(HTTP) + service('{clusterIP: 10.96.0.9, ports: [{port: 80}]}'),
      ['Accepted=True Accepted', 'Programmed=True Programmed', 'ResolvedRefs=True ResolvedRefs'],
    ],
    [
      'waits for the address of its load balancer',
      gateway(HTTP) + service('{type: LoadBalancer, clusterIP: 10.96.0.9, ports: [{port: 80}]}'),
      ['Accepted=True Accepted', 'Programmed=False AddressNotAssigned', 'ResolvedRefs=True ResolvedRefs'],
    ],
    [
      'with one valid listener is accepted',
      gateway(`${HTTP}, {name: b, port: 81, protocol: UDP}`),
      ['Accepted=True ListenersNotValid', 'Programmed=False AddressNotAssigned', 'ResolvedRefs=True ResolvedRefs'],
    ],
    [
      'without a valid listener is not accepted',
      gateway('{name: b, port: 81, protocol: UDP}'),
      ['Accepted=False ListenersNotValid', 'Programmed=False Invalid', 'ResolvedRefs=True ResolvedRefs'],
    ],
    [
      'with parameters is not accepted',
      gateway(HTTP, 'infrastructure: {parametersRef: {group: example.com, kind: Size, name: large}}'),
      ['Accepted=False InvalidParameters', 'Programmed=False Invalid', 'ResolvedRefs=True ResolvedRefs'],
    ],
    [
      'with an address of an unknown type is not accepted',
      gateway(HTTP, 'addresses: [{type: example.com/pool, value: a}]'),
      ['Accepted=False UnsupportedAddress', 'Programmed=False Invalid', 'ResolvedRefs=True ResolvedRefs'],
    ],
    [
      'whose client certificate has the name of authorities says so',
      gateway(HTTP, 'tls: {backend: {clientCertificateRef: {name: pair-cacert}}}') +
        secret('edge').replace('name: pair', 'name: pair-cacert'),
      [
        'Accepted=True Accepted',
        'Programmed=False AddressNotAssigned',
        'ResolvedRefs=False InvalidClientCertificateRef',
      ],
    ],
    [
      'whose client certificate does not exist says so',
      gateway(HTTP, 'tls: {backend: {clientCertificateRef: {name: missing}}}'),
      [
        'Accepted=True Accepted',
        'Programmed=False AddressNotAssigned',
        'ResolvedRefs=False InvalidClientCertificateRef',
      ],
    ],
  ];
  for (const [behaviour, yaml, expected] of rows) {
    test(behaviour, () => assert.deepEqual(listenersOf(yaml).conditions, expected));
  }

  test('whose client certificate does not exist presents none, and connects to no backend with TLS', () => {
    const { derived } = translated(gateway(HTTP, 'tls: {backend: {clientCertificateRef: {name: missing}}}'));
    const [document] = [...derived.values()].filter(({ kind }) => kind === 'Gateway');
    assert.deepEqual(document?.kind === 'Gateway' && document.content.clientKeyPair, { namespace: '', name: '' });
  });

  test('that is not accepted derives nothing', () => {
    const { servers } = listenersOf(gateway(HTTP, 'infrastructure: {parametersRef: {group: a.b, kind: C, name: d}}'));
    assert.deepEqual(servers, []);
  });

  test('whose class is not accepted is not accepted either and derives nothing, until the class is', () => {
    const gatewayClass = (parameters: string) => `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: meshd}
spec: {controllerName: mesh.io/gateway-controller${parameters}}
---
`;
    const refused = gatewayClass(', parametersRef: {group: example.com, kind: Size, name: large}');
    const { translator, derived, status } = translated(refused + gateway(HTTP));
    assert.deepEqual([...derived.keys()], []);
    const conditions = () => shown(status('KubernetesGateway/edge/public')?.conditions).slice(0, 2);
    assert.deepEqual(conditions(), ['Accepted=False InvalidParameters', 'Programmed=False Invalid']);
    assert.deepEqual(shown(status('GatewayClass//meshd')?.conditions), ['Accepted=False InvalidParameters']);
    const changes = translator.apply(setChanges(documentsOf(gatewayClass(''))));
    assert.ok(changes.some(({ key, after }) => key.startsWith('Gateway/edge/') && after !== undefined));
    assert.equal(conditions()[0], 'Accepted=True Accepted');
  });
});
