/** The clusters that resources lead to, in every field that may name one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { envoy, google, packAny } from '../../protobuf/index.ts';
import { clusterNamesIn } from './cluster-names.ts';

const NAME = 'outbound|80||a.shop.svc.cluster.local';
const SUBSET = 'outbound|8080|v-1_x|*.b.example.com';
/** Its length takes two bytes. */
const LONG = `outbound|80||${'l'.repeat(60)}.${'m'.repeat(60)}.shop.svc.cluster.local`;

const { VirtualHost } = envoy.config.route.v3;
const { Cluster } = envoy.config.cluster.v3;
const filters = envoy.extensions.filters;
const grpcService = { envoyGrpc: { clusterName: NAME } };

function hostWith(route: envoy.config.route.v3.Route.Input): Uint8Array {
  return VirtualHost.encode({
    name: 'a.shop.svc.cluster.local:80',
    domains: ['a', '*.a'],
    routes: [{ match: { prefix: '/' }, ...route }],
  }).finish();
}

function perFilter(name: string, config: google.protobuf.Any.Input): Uint8Array {
  return hostWith({ route: { cluster: 'BlackHoleCluster' }, typedPerFilterConfig: { [name]: config } });
}

const LUA = `function envoy_on_request(handle)
  handle:httpCall("${NAME}", {[":method"] = "GET"}, "", 1000)
  handle:httpCall('${SUBSET}', {}, nil, 5)
end`;

const CASES: Readonly<Record<string, readonly [message: Uint8Array, names: readonly string[]]>> = {
  'a route': [hostWith({ route: { cluster: NAME } }), [NAME]],
  'a long name': [hostWith({ route: { cluster: LONG } }), [LONG]],
  weights: [
    hostWith({ route: { weightedClusters: { clusters: [{ name: NAME, weight: { value: 1 } }, { name: SUBSET }] } } }),
    [NAME, SUBSET],
  ],
  mirrors: [
    hostWith({ route: { cluster: LONG, requestMirrorPolicies: [{ cluster: NAME }, { cluster: SUBSET }] } }),
    [LONG, NAME, SUBSET],
  ],
  'the authorizer of a route': [
    perFilter(
      'envoy.filters.http.ext_authz',
      packAny(filters.http.ext_authz.v3.ExtAuthzPerRoute, { checkSettings: { grpcService } }),
    ),
    [NAME],
  ],
  'the script of a route': [
    perFilter(
      'envoy.filters.http.lua',
      packAny(filters.http.lua.v3.LuaPerRoute, { sourceCode: { inlineString: LUA } }),
    ),
    [NAME, SUBSET],
  ],
  'the configuration of a plugin': [
    google.protobuf.StringValue.encode({ value: JSON.stringify({ cluster: NAME, other: [SUBSET] }) }).finish(),
    [NAME, SUBSET],
  ],
  'a limit of rates': [
    filters.http.ratelimit.v3.RateLimit.encode({ domain: 'a', rateLimitService: { grpcService } }).finish(),
    [NAME],
  ],
  'members of an aggregate': [
    Cluster.encode({
      name: 'all',
      clusterType: {
        name: 'envoy.clusters.aggregate',
        typedConfig: packAny(envoy.extensions.clusters.aggregate.v3.ClusterConfig, { clusters: [NAME, LONG] }),
      },
    }).finish(),
    [NAME, LONG],
  ],
};

for (const [what, [message, names]] of Object.entries(CASES))
  test(`${what}: clusters are found`, () => {
    const { led, askable } = clusterNamesIn(message);
    for (const name of names) assert.ok(led.has(name), `${name} in ${[...led].join()}`);
    assert.equal(askable.size, 0);
  });

const { TcpProxy } = filters.network.tcp_proxy.v3;
type Proxy = envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.Input;

function listenerWith(...proxies: readonly Proxy[]): Uint8Array {
  return envoy.config.listener.v3.Listener.encode({
    name: '0.0.0.0_80',
    filterChains: proxies.map((proxy) => ({
      filters: [{ name: 'envoy.filters.network.tcp_proxy', typedConfig: packAny(TcpProxy, proxy) }],
    })),
  }).finish();
}

/** The clusters of this file in a message, without strings that only look like one. */
function namedIn(message: Uint8Array) {
  const { led, askable } = clusterNamesIn(message);
  const known = (names: ReadonlySet<string>) => [NAME, SUBSET, LONG].filter((name) => names.has(name));
  return { led: known(led), askable: known(askable) };
}

const onDemand = { odcdsConfig: { ads: {} }, timeout: { seconds: 5 } };

test('a TCP proxy leads to its clusters, unless Envoy asks for them', () => {
  const proxy = { statPrefix: NAME, cluster: NAME };
  const weighted = {
    weightedClusters: {
      clusters: [
        { name: NAME, weight: 1 },
        { name: LONG, weight: 1 },
      ],
    },
  };
  assert.deepEqual(namedIn(listenerWith(proxy)), { led: [NAME], askable: [] });
  assert.deepEqual(namedIn(listenerWith({ ...proxy, onDemand })), { led: [], askable: [NAME] });
  const two = listenerWith({ statPrefix: 'b', ...weighted, onDemand }, { ...proxy, onDemand });
  assert.deepEqual(namedIn(two), { led: [], askable: [NAME, LONG] });
  const third = { ...proxy, cluster: LONG, onDemand };
  const three = listenerWith({ ...proxy, onDemand }, { statPrefix: SUBSET, cluster: SUBSET }, third);
  assert.deepEqual(namedIn(three), { led: [SUBSET], askable: [NAME, LONG] });
});

test('the access log of a TCP proxy leads to its cluster, also if Envoy asks for that of connections', () => {
  const { TcpGrpcAccessLogConfig } = envoy.extensions.access_loggers.grpc.v3;
  const config = { commonConfig: { logName: 'tcp', grpcService: { envoyGrpc: { clusterName: LONG } } } };
  const accessLog = [{ name: 'grpc', typedConfig: packAny(TcpGrpcAccessLogConfig, config) }];
  const found = namedIn(listenerWith({ statPrefix: NAME, cluster: NAME, onDemand, accessLog }));
  assert.deepEqual(found, { led: [LONG], askable: [NAME] });
});

test('bytes that only look like a TCP proxy lead to what they name', () => {
  const text = `type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy\x12\x7f ${NAME} `;
  assert.deepEqual(namedIn(Buffer.from(text)), { led: [NAME], askable: [] });
});
