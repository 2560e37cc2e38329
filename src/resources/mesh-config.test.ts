import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkDocument } from './check.ts';
import { parseMeshConfig, parseMeshNetworks } from './mesh-config.ts';
import { fieldPath } from './parsing/issues.ts';

const HUGE = '3000000h';

test('values that Envoy would refuse in every resource are refused in the mesh configuration, by field', () => {
  const rows: readonly [raw: Readonly<Record<string, unknown>>, field: string | undefined][] = [
    [{ connectTimeout: '1ms', protocolDetectionTimeout: '0s', dnsRefreshRate: '2ms' }, undefined],
    [{ tcpKeepalive: { probes: 3, time: '7200s', interval: '75s' } }, undefined],
    [{ proxyListenPort: 1, proxyInboundListenPort: 65535 }, undefined],
    [{ localityLbSetting: { distribute: [{ from: 'a/*', to: { 'a/*': 80, 'b/*': 20 } }] } }, undefined],
    [{ connectTimeout: '0s' }, 'connectTimeout'],
    [{ connectTimeout: '-1s' }, 'connectTimeout'],
    [{ connectTimeout: HUGE }, 'connectTimeout'],
    [{ protocolDetectionTimeout: '-1s' }, 'protocolDetectionTimeout'],
    [{ protocolDetectionTimeout: HUGE }, 'protocolDetectionTimeout'],
    [{ dnsRefreshRate: '1ms' }, 'dnsRefreshRate'],
    [{ dnsRefreshRate: HUGE }, 'dnsRefreshRate'],
    [{ tcpKeepalive: { time: '-1s' } }, 'tcpKeepalive.time'],
    [{ tcpKeepalive: { interval: '10ms' } }, 'tcpKeepalive.interval'],
    [{ proxyListenPort: 0 }, 'proxyListenPort'],
    [{ proxyInboundListenPort: 65536 }, 'proxyInboundListenPort'],
    [{ proxyListenPort: 15006 }, 'proxyInboundListenPort'],
    [{ localityLbSetting: { distribute: [{ from: 'a/*', to: { 'a/*': 80 } }] } }, 'localityLbSetting.distribute[0].to'],
  ];
  for (const [raw, field] of rows) {
    for (const given of [raw, { ...raw, notReadHere: true }]) {
      const parsed = parseMeshConfig(given);
      const found = 'problem' in parsed ? fieldPath(parsed.problem.path) : undefined;
      assert.equal(found, field, JSON.stringify(given));
    }
  }
});

test('trusted namespaces are names of namespaces, or all', () => {
  for (const names of [[], ['a', 'b-1'], ['*']]) {
    const parsed = parseMeshConfig({ trustedConfigNamespaces: names });
    assert.deepEqual('value' in parsed && parsed.value.trustedConfigNamespaces, names);
  }
  for (const name of ['', 'a/b', '*-a', 'A', '.']) {
    const parsed = parseMeshConfig({ trustedConfigNamespaces: ['a', name] });
    assert.equal('problem' in parsed && fieldPath(parsed.problem.path), 'trustedConfigNamespaces[1]', name);
  }
});

test('a document around the configuration is refused, not taken for the default', () => {
  for (const parse of [parseMeshConfig, parseMeshNetworks]) {
    const parsed = parse({ apiVersion: 'v1', kind: 'ConfigMap', data: { mesh: 'trustDomain: a' } });
    assert.ok('problem' in parsed);
    assert.equal(parsed.problem.message, 'expected the configuration itself, got a "ConfigMap" document');
  }
});

test('text with half a character is refused by its field', () => {
  const parsed = parseMeshConfig({ extensionProviders: [{ name: 'a\ud800' }] });
  assert.ok('problem' in parsed);
  assert.deepEqual(parsed.problem, {
    path: ['extensionProviders', 0, 'name'],
    message: 'expected well-formed Unicode: surrogates must be in pairs',
  });
});

test('a field that resembles a known one is refused: the default would allow what it forbids', () => {
  const rows: readonly [raw: Readonly<Record<string, unknown>>, field: string, message: RegExp][] = [
    [
      { outboundTraficPolicy: { mode: 'REGISTRY_ONLY' } },
      'outboundTraficPolicy',
      /did you mean outboundTrafficPolicy\?/,
    ],
    [{ OutboundTrafficPolicy: { mode: 'REGISTRY_ONLY' } }, 'OutboundTrafficPolicy', /did you mean/],
    [{ outboundTrafficPolicy: { mod: 'REGISTRY_ONLY' } }, 'outboundTrafficPolicy.mod', /did you mean mode\?/],
    [{ trustdomain: 'td' }, 'trustdomain', /did you mean trustDomain\?/],
  ];
  for (const [raw, field, message] of rows) {
    const parsed = parseMeshConfig(raw);
    assert.ok('problem' in parsed, field);
    assert.equal(fieldPath(parsed.problem.path), field);
    assert.match(parsed.problem.message, message);
  }
  const both = parseMeshConfig({ trustDomain: 'td', trustdomain: 'other', mixerCheckServer: 'x' });
  assert.ok('value' in both);
  assert.equal(both.warning, 'ignored unknown fields: mixerCheckServer, trustdomain');
});

test('fields without effect are named when they differ from the default, and their values are checked', () => {
  const parsed = parseMeshConfig({ enableTracing: true, disableEnvoyListenerLog: true });
  assert.ok('value' in parsed);
  assert.equal(parsed.warning, 'fields that this version does not support: disableEnvoyListenerLog');
  assert.ok('problem' in parseMeshConfig({ disableEnvoyListenerLog: 'banana' }));
});

test('newer settings of Istio without a counterpart are named, and are no misspelt fields', () => {
  const parsed = parseMeshConfig({
    defaultTrafficPolicy: { connectionPool: {} },
    zoneAwareLbSetting: { enabled: true },
  });
  assert.ok('value' in parsed);
  assert.equal(parsed.warning, 'ignored unknown fields: defaultTrafficPolicy, zoneAwareLbSetting');
  const rule = {
    apiVersion: 'networking.istio.io/v1',
    kind: 'DestinationRule',
    metadata: { name: 'a', namespace: 'b' },
    spec: { host: 'a.b', trafficPolicy: { loadBalancer: { simple: 'RANDOM', zoneAwareLbSetting: { enabled: true } } } },
  };
  const field = 'spec.trafficPolicy.loadBalancer.zoneAwareLbSetting';
  assert.deepEqual(checkDocument(rule)?.warnings, [{ field, message: 'unknown field' }]);
});

test('ports at which sidecars listen are no ports of Envoy or of the agent', () => {
  for (const [raw, expected] of [
    [{ proxyHttpPort: 70_000 }, 'proxyHttpPort: expected a port from 1 to 65535, got 70000'],
    [{ proxyHttpPort: 15_001 }, 'proxyHttpPort: expected another port than that of proxyListenPort, got 15001'],
    [{ proxyHttpPort: 15_006 }, 'proxyHttpPort: expected another port than that of proxyInboundListenPort, got 15006'],
    [{ proxyHttpPort: 15_000 }, "proxyHttpPort: expected another port than that of Envoy's admin interface, got 15000"],
    [
      { proxyHttpPort: 15_020 },
      'proxyHttpPort: expected another port than that of the status server of the agent, got 15020',
    ],
    [{ proxyHttpPort: 15_021 }, 'proxyHttpPort: expected another port than that of the readiness probe, got 15021'],
    [
      { proxyHttpPort: 15_053 },
      'proxyHttpPort: expected another port than that of the DNS server of the agent, got 15053',
    ],
    [{ proxyHttpPort: 15_090 }, 'proxyHttpPort: expected another port than that of the metrics of Envoy, got 15090'],
    [
      { proxyListenPort: 16_000, defaultConfig: { proxyAdminPort: 16_000 } },
      "proxyListenPort: expected another port than that of Envoy's admin interface, got 16000",
    ],
    [{ proxyListenPort: 0 }, 'proxyListenPort: expected a port from 1 to 65535, got 0'],
  ] as const) {
    const parsed = parseMeshConfig(raw);
    assert.ok('problem' in parsed, expected);
    assert.equal(`${fieldPath(parsed.problem.path)}: ${parsed.problem.message}`, expected);
  }
  assert.ok('value' in parseMeshConfig({ proxyHttpPort: 15_000, defaultConfig: { proxyAdminPort: 16_000 } }));
});

test('certificates for DNS names are reported with the reason', () => {
  const parsed = parseMeshConfig({ certificates: [{ secretName: 'dns.web', dnsNames: ['web.shop.svc'] }] });
  assert.match('warning' in parsed ? String(parsed.warning) : '', /^certificates has no effect: .* cert-manager$/);
});

test('gateways of networks without an address or a Service are named in a warning', () => {
  const gateways = [
    { registryServiceName: 'gateway.mesh-system.svc.cluster.local', port: 443 },
    { address: 'gateway.example.com', port: 443 },
    { address: '192.0.2.1', port: 443 },
    { port: 443 },
  ];
  const parsed = parseMeshNetworks({ networks: { far: { gateways } } });
  assert.ok('value' in parsed);
  assert.match(
    parsed.warning ?? '',
    /^expected the address of a gateway or its registryServiceName: networks\.far\.gateways\[3\];/,
  );
});

test('localities of gateways are named in a warning', () => {
  const near = { gateways: [{ address: '192.0.2.1', port: 443, locality: 'eu/a' }] };
  const far = { gateways: [{ address: '192.0.2.2', port: 443 }] };
  const parsed = parseMeshNetworks({ networks: { near, far } });
  assert.ok('value' in parsed);
  assert.match(parsed.warning ?? '', /^locality of a gateway has no effect, .*: networks near$/);
});
