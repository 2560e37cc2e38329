import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encode, envoy, fromProtoJson, mergeMessages, toProtoJson } from './index.ts';

const CLUSTER = 'envoy.config.cluster.v3.Cluster';
const { Cluster } = envoy.config.cluster.v3;
const TLS = 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext';

function merged(base: object, patch: object): unknown {
  const [one, two] = [base, patch].map((json) => Cluster.decode(fromProtoJson(CLUSTER, json)));
  assert.ok(one !== undefined && two !== undefined);
  const before = encode(Cluster, one);
  const result = encode(Cluster, mergeMessages(CLUSTER, one, two));
  assert.deepEqual(encode(Cluster, one), before, 'the base stays as it is');
  return toProtoJson(CLUSTER, result);
}

const socket = (context: object) => ({ transport_socket: { name: 'tls', typed_config: { '@type': TLS, ...context } } });

test('set fields replace, messages merge, lists are appended', () => {
  assert.deepEqual(
    merged(
      { name: 'a', alt_stat_name: 'b', eds_cluster_config: { service_name: 'x' }, filters: [{ name: 'one' }] },
      { alt_stat_name: 'c', eds_cluster_config: { eds_config: { ads: {} } }, filters: [{ name: 'two' }] },
    ),
    {
      name: 'a',
      alt_stat_name: 'c',
      eds_cluster_config: { eds_config: { ads: {} }, service_name: 'x' },
      filters: [{ name: 'one' }, { name: 'two' }],
    },
  );
});

test('lists replace those of the base on request, also inside of Any', () => {
  const json = (filters: object[], names: string[]) => ({
    filters,
    health_checks: [{ http_health_check: { path: '/' } }],
    ...socket({ common_tls_context: { alpn_protocols: names } }),
  });
  const [one, two] = [json([{ name: 'one' }], ['a']), { ...json([{ name: 'two' }], ['b']), health_checks: [] }].map(
    (each) => Cluster.decode(fromProtoJson(CLUSTER, each)),
  );
  assert.ok(one !== undefined && two !== undefined);
  const result = mergeMessages(CLUSTER, one, two, 'replace');
  assert.deepEqual(toProtoJson(CLUSTER, encode(Cluster, result)), json([{ name: 'two' }], ['b']));
});

test('a duration and a wrapper are replaced as a whole', () => {
  const limits = (keepalive: object) => ({ upstream_connection_options: { tcp_keepalive: keepalive } });
  assert.deepEqual(
    merged(
      { connect_timeout: '1.5s', ...limits({ keepalive_probes: 5 }) },
      { connect_timeout: '2s', ...limits({ keepalive_probes: 0 }) },
    ),
    { connect_timeout: '2s', ...limits({ keepalive_probes: 0 }) },
  );
});

test('a member of a oneof replaces the other one', () => {
  const type = { name: 'custom', typed_config: { '@type': TLS } };
  assert.deepEqual(merged({ type: 'EDS' }, { cluster_type: type }), { cluster_type: type });
});

test('an entry of a map is replaced as a whole', () => {
  const options = (key: string, context: object) => ({
    typed_extension_protocol_options: { [key]: { '@type': TLS, ...context } },
  });
  assert.deepEqual(
    merged(options('a', { sni: 'x' }), options('a', { allow_renegotiation: true })),
    options('a', { allow_renegotiation: true }),
  );
});

test('packed messages of one type merge, and one of another type replaces', () => {
  assert.deepEqual(
    merged(socket({ sni: 'x' }), socket({ allow_renegotiation: true })),
    socket({ sni: 'x', allow_renegotiation: true }),
  );
  const other = { '@type': 'type.googleapis.com/google.protobuf.Duration', value: '1s' };
  const replaced = { transport_socket: { name: 'tls', typed_config: other } };
  assert.deepEqual(merged(socket({ sni: 'x' }), replaced), replaced);
});
