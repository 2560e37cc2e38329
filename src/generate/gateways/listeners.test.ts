import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { envoy } from '../../protobuf/index.ts';
import { gatewayOutput, viewOf } from '../testing/gateways.ts';
import { REVIEWS, TO_REVIEWS, virtualServiceOf } from '../testing/routes.ts';

const { HttpConnectionManager } = envoy.extensions.filters.network.http_connection_manager.v3;
const { TcpProxy } = envoy.extensions.filters.network.tcp_proxy.v3;
const { DownstreamTlsContext } = envoy.extensions.transport_sockets.tls.v3;

const HTTP = { port: { number: 80, name: 'http', protocol: 'HTTP' }, hosts: ['*'] };
const FILES = { mode: 'SIMPLE', serverCertificate: '/c.pem', privateKey: '/k.pem' };

function https(name: string, hosts: readonly string[], tls: object = FILES) {
  return { port: { number: 443, name, protocol: 'HTTPS' }, hosts, tls };
}

type Decoded = envoy.config.listener.v3.Listener;

function serverNames(listener: Decoded | undefined) {
  return listener?.filterChains.map(({ filterChainMatch }) => filterChainMatch?.serverNames ?? []);
}

function tlsOf(listener: Decoded | undefined, chain = 0) {
  const bytes = listener?.filterChains[chain]?.transportSocket?.typedConfig?.value;
  return bytes === undefined ? undefined : DownstreamTlsContext.decode(bytes);
}

function tcpOf(listener: Decoded | undefined, chain = 0) {
  const bytes = listener?.filterChains[chain]?.filters[0]?.typedConfig?.value;
  return bytes === undefined ? undefined : TcpProxy.decode(bytes);
}

describe('HTTP', () => {
  test('one listener at the port that the service maps to; clients are not trusted', () => {
    const [only] = gatewayOutput({ servers: [HTTP] }, viewOf({ portMap: { 80: 8080 } })).listeners;
    assert.equal(only?.listener.name, '0.0.0.0_8080');
    assert.equal(only?.listener.address?.socketAddress?.portValue, 8080);
    assert.deepEqual(only?.refs, ['http.80']);
    const bytes = only?.listener.filterChains[0]?.filters[0]?.typedConfig?.value ?? new Uint8Array(0);
    const manager = HttpConnectionManager.decode(bytes);
    assert.equal(manager.useRemoteAddress?.value, true);
    assert.equal(manager.rds?.routeConfigName, 'http.80');
  });
  test('bound to an address, apart from the others', () => {
    const output = gatewayOutput({ servers: [HTTP, { ...HTTP, bind: '127.0.0.1' }] });
    assert.deepEqual(
      output.listeners.map(({ listener, refs }) => [listener.name, refs]),
      [
        ['0.0.0.0_80', ['http.80']],
        ['127.0.0.1_80', ['http.80.127.0.0.1']],
      ],
    );
  });
  test('on a machine of both families at both wildcard addresses, unless another server has one of them', () => {
    const view = viewOf({ families: 'dual' });
    const addresses = (...servers: readonly unknown[]) =>
      gatewayOutput({ servers }, view).listeners.map(({ listener }) =>
        [listener.address, ...listener.additionalAddresses.map(({ address }) => address)].map(
          (each) => each?.socketAddress?.address,
        ),
      );
    assert.deepEqual(addresses(HTTP), [['0.0.0.0', '::']]);
    assert.deepEqual(addresses(HTTP, { ...HTTP, bind: '::' }), [['0.0.0.0'], ['::']]);
  });
  test('IPv6 only', () => {
    const [only] = gatewayOutput({ servers: [HTTP] }, viewOf({ families: 'ipv6' })).listeners;
    assert.equal(only?.listener.address?.socketAddress?.address, '::');
  });
});

describe('TLS termination', () => {
  test('a filter chain for each server, chosen by server name', () => {
    const [only] = gatewayOutput({
      servers: [https('a', ['a.example', 'shop/b.example']), https('rest', ['*'])],
    }).listeners;
    assert.deepEqual(serverNames(only?.listener), [['a.example', 'b.example'], []]);
    assert.equal(only?.listener.listenerFilters[0]?.name, 'envoy.filters.listener.tls_inspector');
    const tls = tlsOf(only?.listener);
    assert.equal(tls?.commonTlsContext?.tlsCertificates[0]?.certificateChain?.filename, '/c.pem');
    assert.equal(tls?.commonTlsContext?.tlsCertificates[0]?.privateKey?.filename, '/k.pem');
    assert.deepEqual(tls?.commonTlsContext?.alpnProtocols, ['h2', 'http/1.1']);
    assert.equal(tls?.requireClientCertificate?.value, false);
  });
  test('client certificates, versions, ciphers', () => {
    const tls = tlsOf(
      gatewayOutput({
        servers: [
          https('a', ['*'], {
            ...FILES,
            mode: 'MUTUAL',
            caCertificates: '/ca.pem',
            subjectAltNames: ['spiffe://x/y', 'client.example'],
            minProtocolVersion: 'TLSV1_2',
            maxProtocolVersion: 'TLSV1_3',
            cipherSuites: ['ECDHE-RSA-AES128-GCM-SHA256'],
          }),
        ],
      }).listeners[0]?.listener,
    );
    const common = tls?.commonTlsContext;
    const { TlsProtocol } = envoy.extensions.transport_sockets.tls.v3.TlsParameters;
    const { SanType } = envoy.extensions.transport_sockets.tls.v3.SubjectAltNameMatcher;
    assert.equal(tls?.requireClientCertificate?.value, true);
    assert.equal(common?.validationContext?.trustedCa?.filename, '/ca.pem');
    assert.deepEqual(
      common?.validationContext?.matchTypedSubjectAltNames.map(({ sanType, matcher }) => [sanType, matcher?.exact]),
      [
        [SanType.URI, 'spiffe://x/y'],
        [SanType.DNS, 'client.example'],
      ],
    );
    assert.equal(common?.tlsParams?.tlsMinimumProtocolVersion, TlsProtocol.TLSv1_2);
    assert.equal(common?.tlsParams?.tlsMaximumProtocolVersion, TlsProtocol.TLSv1_3);
    assert.deepEqual(common?.tlsParams?.cipherSuites, ['ECDHE-RSA-AES128-GCM-SHA256']);
  });
  test('files are read by the agent where there is one, so that a missing file costs no listener', () => {
    const view = viewOf({ capabilities: { extensions: undefined, sds: true } });
    const mutual = { ...FILES, mode: 'MUTUAL', caCertificates: '/ca.pem', caCrl: '/crl.pem', subjectAltNames: ['x'] };
    const common = tlsOf(
      gatewayOutput({ servers: [https('a', ['*'], mutual)] }, view).listeners[0]?.listener,
    )?.commonTlsContext;
    assert.deepEqual(common?.tlsCertificates, []);
    const [pair] = common?.tlsCertificateSdsSecretConfigs ?? [];
    assert.equal(pair?.name, 'file-cert:/c.pem~/k.pem');
    assert.equal(pair?.sdsConfig?.apiConfigSource?.grpcServices[0]?.envoyGrpc?.clusterName, 'sds-grpc');
    assert.equal(Number(pair?.sdsConfig?.initialFetchTimeout?.seconds), 2);
    const combined = common?.combinedValidationContext;
    assert.equal(combined?.validationContextSdsSecretConfig?.name, 'file-root:/ca.pem~/crl.pem');
    assert.equal(combined?.defaultValidationContext?.matchTypedSubjectAltNames.length, 1);
    // A path that no secret name can contain is read by Envoy.
    const odd = { ...FILES, serverCertificate: '/c~.pem' };
    const written = tlsOf(gatewayOutput({ servers: [https('a', ['*'], odd)] }, view).listeners[0]?.listener);
    assert.equal(written?.commonTlsContext?.tlsCertificates[0]?.certificateChain?.filename, '/c~.pem');
  });
  test('a handshake that is never finished times out', () => {
    const [only] = gatewayOutput({ servers: [https('a', ['*'])] }).listeners;
    assert.equal(Number(only?.listener.filterChains[0]?.transportSocketConnectTimeout?.seconds), 15);
  });
  test('a server name leads to the first server that has it', () => {
    const { listeners, findings } = gatewayOutput({
      servers: [https('a', ['a.example']), https('b', ['a.example', 'b.example']), https('c', ['a.example'])],
    });
    assert.deepEqual(serverNames(listeners[0]?.listener), [['a.example'], ['b.example']]);
    assert.deepEqual(listeners[0]?.refs, ['https.443.a.gw.edge', 'https.443.b.gw.edge']);
    assert.equal(findings.length, 2);
    assert.match(findings[0]?.message ?? '', /server b: TLS server name a\.example is taken by .*server a/);
  });

  test('mutual TLS of the mesh, with certificates from the agent', () => {
    const view = viewOf({ capabilities: { extensions: undefined, sds: true } });
    const { listeners, findings } = gatewayOutput({ servers: [https('a', ['*'], { mode: 'ISTIO_MUTUAL' })] }, view);
    const tls = tlsOf(listeners[0]?.listener);
    assert.deepEqual(findings, []);
    assert.equal(tls?.requireClientCertificate?.value, true);
    assert.deepEqual(
      tls?.commonTlsContext?.tlsCertificateSdsSecretConfigs.map(({ name }) => name),
      ['default'],
    );
    assert.equal(tls?.commonTlsContext?.combinedValidationContext?.validationContextSdsSecretConfig?.name, 'ROOTCA');
  });

  const refused: readonly [behaviour: string, server: object, reason: RegExp][] = [
    ['mesh certificates', https('x', ['*'], { mode: 'ISTIO_MUTUAL' }), /node metadata MESH_SDS_CLUSTER/],
    ['no files', https('x', ['*'], { mode: 'SIMPLE' }), /needs credentialName, or serverCertificate/],
    ['MUTUAL without authorities', https('x', ['*'], { ...FILES, mode: 'MUTUAL' }), /needs caCertificates/],
    ['HTTPS without TLS settings', { ...https('x', ['*']), tls: undefined }, /without TLS settings/],
    ['TLS on an HTTP port', { ...HTTP, tls: FILES }, /expected protocol HTTPS/],
    [
      'TLS on a TCP port',
      { ...HTTP, port: { number: 80, name: 'x', protocol: 'TCP' }, tls: FILES },
      /expected protocol TLS/,
    ],
  ];
  for (const [behaviour, server, reason] of refused) {
    test(`${behaviour}: no listener at all, and a finding`, () => {
      const { listeners, findings, routes } = gatewayOutput({ servers: [server] });
      assert.equal(listeners.length, 0);
      assert.equal(routes.size, 0);
      assert.equal(findings[0]?.metric, 'ctl_invalid_out_listeners');
      assert.match(findings[0]?.message ?? '', reason);
    });
  }
});

describe('passthrough and TCP', () => {
  const passthrough = {
    port: { number: 443, name: 'tls', protocol: 'TLS' },
    hosts: ['*.example'],
    tls: { mode: 'PASSTHROUGH' },
  };
  const tcp = { port: { number: 9000, name: 'tcp', protocol: 'TCP' }, hosts: ['*'] };
  const vs = (spec: object, name = 'v') => virtualServiceOf({ gateways: ['edge/gw'], ...spec }, { name });

  test('TLS by server name, within the hosts of the server', () => {
    const virtualServices = [
      vs({
        hosts: ['*'],
        tls: [
          { match: [{ sniHosts: ['a.example', 'a.other'] }], route: TO_REVIEWS },
          { match: [{ port: 444, sniHosts: ['b.example'] }], route: TO_REVIEWS },
          { match: [{ sniHosts: ['c.example'] }], route: [{ destination: { host: REVIEWS, port: { number: 1 } } }] },
        ],
      }),
    ];
    const [only] = gatewayOutput({ servers: [passthrough], virtualServices }).listeners;
    assert.deepEqual(serverNames(only?.listener), [['a.example'], ['c.example']]);
    assert.equal(tcpOf(only?.listener)?.cluster, `outbound|443||${REVIEWS}`);
    assert.equal(tcpOf(only?.listener, 1)?.cluster, `outbound|1||${REVIEWS}`);
    assert.equal(tlsOf(only?.listener), undefined);
  });
  test('TCP by weight, from the first route that applies', () => {
    const route = [
      { destination: { host: REVIEWS, subset: 'v1' }, weight: 80 },
      { destination: { host: REVIEWS, subset: 'v2' }, weight: 20 },
    ];
    const tcpRoutes = [
      { match: [{ gateways: ['mesh'] }], route: TO_REVIEWS },
      { match: [{ port: 9000 }], route },
    ];
    const [only] = gatewayOutput({
      servers: [tcp],
      virtualServices: [vs({ hosts: ['x.example'], tcp: tcpRoutes })],
    }).listeners;
    assert.deepEqual(
      tcpOf(only?.listener)?.weightedClusters?.clusters.map(({ name, weight }) => [name, weight]),
      [
        [`outbound|9000|v1|${REVIEWS}`, 80],
        [`outbound|9000|v2|${REVIEWS}`, 20],
      ],
    );
  });
  test('TCP by addresses of clients, up to the first route for all', () => {
    const to = (port: number) => [{ destination: { host: REVIEWS, port: { number: port } } }];
    const tcpRoutes = [
      { match: [{ sourceSubnet: '10.0.0.0/8' }, { sourceSubnet: '192.0.2.1', port: 9000 }], route: to(1) },
      { match: [{ sourceSubnet: '10.1.0.0/16' }], route: to(2) },
      { match: [{ port: 9001 }], route: to(3) },
      { match: [{ sourceSubnet: '2001:db8::/32' }, {}], route: to(4) },
      { route: to(5) },
    ];
    const matched = (tcp: readonly unknown[]) => {
      const virtualServices = [vs({ hosts: ['x.example'], tcp })];
      const [only] = gatewayOutput({ servers: [{ ...passthrough, ...server }], virtualServices }).listeners;
      return only?.listener.filterChains.map(({ filterChainMatch }, index) => {
        const ranges = filterChainMatch?.sourcePrefixRanges ?? [];
        return [
          tcpOf(only.listener, index)?.cluster?.split('|')[1],
          ...ranges.map(({ addressPrefix, prefixLen }) => `${addressPrefix}/${prefixLen?.value}`),
        ];
      });
    };
    let server: object = tcp;
    // The narrower range is left out: Envoy would prefer it to the route before.
    const expected = [['1', '10.0.0.0/8', '192.0.2.1/32'], ['4']];
    assert.deepEqual(matched(tcpRoutes), expected);
    assert.deepEqual(matched(tcpRoutes.slice(0, 2)), [['1', '10.0.0.0/8', '192.0.2.1/32']]);
    server = { tls: FILES, port: { ...passthrough.port, number: 9000 } };
    assert.deepEqual(matched(tcpRoutes), expected);
  });
  test('without a route there is no listener', () => {
    assert.deepEqual(gatewayOutput({ servers: [tcp, passthrough] }).listeners, []);
  });
  test('TCP after TLS termination', () => {
    const server = { ...passthrough, tls: FILES };
    const [only] = gatewayOutput({
      servers: [server],
      virtualServices: [vs({ hosts: ['a.example'], tcp: [{ route: TO_REVIEWS }] })],
    }).listeners;
    assert.deepEqual(serverNames(only?.listener), [['*.example']]);
    assert.deepEqual(tlsOf(only?.listener)?.commonTlsContext?.alpnProtocols, []);
    assert.equal(tcpOf(only?.listener)?.cluster, `outbound|443||${REVIEWS}`);
  });
});

describe('servers that cannot share a port', () => {
  const tcp = { port: { number: 80, name: 'tcp', protocol: 'TCP' }, hosts: ['*'] };
  test('the first wins', () => {
    const { listeners, findings } = gatewayOutput({ servers: [HTTP, tcp] });
    assert.deepEqual(
      listeners.map(({ refs }) => refs),
      [['http.80']],
    );
    assert.equal(findings[0]?.metric, 'ctl_conflict_outbound_listener_tcp_over_current_http');
  });
  test('also when the first is TCP', () => {
    const { findings, routes } = gatewayOutput({ servers: [tcp, HTTP] });
    assert.equal(findings[0]?.metric, 'ctl_conflict_outbound_listener_http_over_current_tcp');
    assert.equal(routes.size, 0);
  });
  test('two ports that the service maps to one', () => {
    const other = { ...HTTP, port: { number: 81, name: 'http-81', protocol: 'HTTP' } };
    const { listeners, findings } = gatewayOutput(
      { servers: [HTTP, other] },
      viewOf({ portMap: { 80: 8080, 81: 8080 } }),
    );
    assert.equal(listeners.length, 1);
    assert.equal(findings[0]?.unit, '81');
  });
});
