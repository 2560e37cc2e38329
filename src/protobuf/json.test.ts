import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CtlError } from '../core/errors.ts';
import * as fc from '../core/testing/properties.ts';
import { allDescriptors } from './descriptors.ts';
import { envoy, fromProtoJson, google, packAny, packBytes, toProtoJson } from './index.ts';

const CLUSTER = 'envoy.config.cluster.v3.Cluster';
const Cluster = envoy.config.cluster.v3.Cluster;

function roundTrip(name: string, json: unknown): unknown {
  return toProtoJson(name, fromProtoJson(name, json));
}

test('a cluster is printed with proto names, enum names and durations', () => {
  const bytes = Cluster.encode({
    name: 'outbound|80||a.default.svc.cluster.local',
    type: Cluster.DiscoveryType.EDS,
    connectTimeout: { seconds: 1, nanos: 500_000_000 },
    lbPolicy: Cluster.LbPolicy.LEAST_REQUEST,
    circuitBreakers: { thresholds: [{ maxConnections: { value: 7 }, trackRemaining: true }] },
  }).finish();
  assert.deepEqual(toProtoJson(CLUSTER, bytes), {
    name: 'outbound|80||a.default.svc.cluster.local',
    type: 'EDS',
    connect_timeout: '1.500s',
    lb_policy: 'LEAST_REQUEST',
    circuit_breakers: { thresholds: [{ max_connections: 7, track_remaining: true }] },
  });
});

test('an Any is printed with its content, also a nested one, and special forms are under "value"', () => {
  const router = packAny(envoy.extensions.filters.http.router.v3.Router, { dynamicStats: { value: true } });
  const bytes = envoy.config.core.v3.TypedExtensionConfig.encode({ name: 'r', typedConfig: router }).finish();
  assert.deepEqual(toProtoJson('envoy.config.core.v3.TypedExtensionConfig', bytes), {
    name: 'r',
    typed_config: {
      '@type': 'type.googleapis.com/envoy.extensions.filters.http.router.v3.Router',
      dynamic_stats: true,
    },
  });
  const duration = packAny(google.protobuf.Duration, { seconds: 3 });
  assert.deepEqual(toProtoJson('google.protobuf.Any', google.protobuf.Any.encode(duration).finish()), {
    '@type': 'type.googleapis.com/google.protobuf.Duration',
    value: '3s',
  });
});

test('an Any of a message that is not compiled is printed with its bytes', () => {
  const any = google.protobuf.Any.encode(packBytes('type.googleapis.com/no.such.Message', Buffer.from('abc'))).finish();
  assert.deepEqual(toProtoJson('google.protobuf.Any', any), {
    '@type': 'type.googleapis.com/no.such.Message',
    value: 'YWJj',
  });
});

test('the newest fields of messages that generation encodes are kept', () => {
  const extensions = 'envoy.extensions.filters';
  const jsonByMessage = {
    [CLUSTER]: { queuing_policies: {}, stats_matcher: { reject_all: true } },
    [`${extensions}.network.http_connection_manager.v3.HttpConnectionManager`]: { stream_flush_timeout: '7s' },
    [`${extensions}.http.ext_authz.v3.ExtAuthz`]: { shadow_mode: true, max_denied_response_body_bytes: 9 },
    [`${extensions}.http.lua.v3.Lua`]: { package_paths: ['/lua'] },
    [`${extensions}.http.router.v3.Router`]: { reject_connect_request_early_data: true },
    'envoy.config.route.v3.RouteConfiguration': { vhost_header: 'x-host' },
  };
  for (const [name, json] of Object.entries(jsonByMessage)) assert.deepEqual(roundTrip(name, json), json, name);
  const { statsMatcher } = Cluster.decode(fromProtoJson(CLUSTER, jsonByMessage[CLUSTER]));
  assert.equal(statsMatcher?.rejectAll, true);
});

test('a message that is compiled can have others inside that are not', () => {
  const name = 'envoy.extensions.common.ratelimit.v3.RateLimitDescriptor';
  const json = { entries: [{ key: 'k', value: 'v' }], limit: { requests_per_unit: 3, unit: 'HOUR' } };
  assert.deepEqual(roundTrip(name, json), json);
});

test('names of unknown messages are not kept', () => {
  const any = (name: string) => ({ typed_config: { '@type': `type.googleapis.com/${name}` } });
  const names = ['no.such.Message', 'envoy.no.such.Message', '__proto__', 'envoy.constructor', 'envoy.config'];
  for (const name of names) assert.throws(() => fromProtoJson('envoy.config.core.v3.TypedExtensionConfig', any(name)));
  // What `lookup` of protobufjs remembers, without a limit.
  const { _lookupCache: remembered } = allDescriptors() as unknown as { readonly _lookupCache: object };
  assert.deepEqual(
    Object.keys(remembered).filter((name) => names.includes(name)),
    [],
  );
});

test('snake case, camel case and null are read', () => {
  const snake = fromProtoJson(CLUSTER, { name: 'a', connect_timeout: '2s', lb_policy: 'MAGLEV' });
  assert.deepEqual(fromProtoJson(CLUSTER, { name: 'a', connectTimeout: '2s', lbPolicy: 5, altStatName: null }), snake);
  assert.equal(Cluster.decode(snake).lbPolicy, Cluster.LbPolicy.MAGLEV);
});

test('JSON that is read is printed the same again', async (t) => {
  const rows: Record<string, [string, unknown]> = {
    'struct with every kind of value': [
      'google.protobuf.Struct',
      { a: null, b: [1, 'x', false, { deep: [] }], c: { d: -0.5 } },
    ],
    'duration below a second, negative': ['google.protobuf.Duration', '-0.000000001s'],
    'timestamp with microseconds': ['google.protobuf.Timestamp', '1969-12-31T23:59:59.000001Z'],
    '64-bit integer beyond 2^53': ['google.protobuf.UInt64Value', '18446744073709551615'],
    'negative 64-bit integer': ['google.protobuf.Int64Value', '-9223372036854775808'],
    bytes: ['google.protobuf.BytesValue', 'AAEC/w=='],
    'not a number': ['google.protobuf.DoubleValue', 'NaN'],
    'zero in a wrapper': ['envoy.config.cluster.v3.Cluster', { per_connection_buffer_limit_bytes: 0 }],
    'a map of messages': [
      'envoy.config.core.v3.Metadata',
      { filter_metadata: { a: { x: 1 }, b: {} }, typed_filter_metadata: {} },
    ],
  };
  for (const [label, [name, json]] of Object.entries(rows)) {
    await t.test(label, () => {
      const expected = name.endsWith('Metadata') ? { filter_metadata: { a: { x: 1 }, b: {} } } : json;
      assert.deepEqual(roundTrip(name, json), expected);
    });
  }
});

test('messages of extensions that generation does not use are known', () => {
  const filter = (json: object) =>
    roundTrip('envoy.config.core.v3.TypedExtensionConfig', { name: 'a', typed_config: json });
  const rows = [
    {
      '@type': 'type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor',
      grpc_service: { envoy_grpc: { cluster_name: 'processor' } },
      processing_mode: { request_header_mode: 'SKIP', request_body_mode: 'FULL_DUPLEX_STREAMED' },
      message_timeout: '0.200s',
    },
    {
      '@type': 'type.googleapis.com/envoy.extensions.filters.http.api_key_auth.v3.ApiKeyAuth',
      key_sources: [{ header: 'x-key' }],
    },
    {
      '@type': 'type.googleapis.com/envoy.extensions.filters.http.composite.v3.ExecuteFilterAction',
      typed_config: {
        name: 'lua',
        typed_config: {
          '@type': 'type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua',
          default_source_code: { inline_string: 'x' },
        },
      },
    },
  ];
  for (const json of rows) assert.deepEqual(filter(json), { name: 'a', typed_config: json });
  assert.throws(
    () => filter({ ...rows[0], grpc_servise: {} }),
    /unknown field of envoy\.extensions.*ExternalProcessor/,
  );
});

test('a duration may have the units of Go', () => {
  const rows = { '500ms': '0.500s', '1m30s': '90s', '2h': '7200s', '5us': '0.000005s', '1s20ns': '1.000000020s' };
  for (const [text, seconds] of Object.entries(rows)) {
    assert.equal(roundTrip('google.protobuf.Duration', text), seconds);
  }
  for (const text of ['', '1', 'ms', '1s1h', '1.5m', '99999999999h', '-5ms', '1m 1s']) {
    assert.throws(() => fromProtoJson('google.protobuf.Duration', text), CtlError, text);
  }
});

test('an error names the path of the wrong value', async (t) => {
  const rows: [label: string, message: string, json: unknown, field: string, text: RegExp][] = [
    ['unknown field', CLUSTER, { conect_timeout: '1s' }, 'conect_timeout', /unknown field of envoy.config.cluster/],
    ['unknown field in a list', CLUSTER, { health_checks: [{}, { x: 1 }] }, 'health_checks[1].x', /unknown field/],
    ['wrong enum', CLUSTER, { lb_policy: 'FASTEST' }, 'lb_policy', /ROUND_ROBIN/],
    ['wrong duration', CLUSTER, { connect_timeout: '5d' }, 'connect_timeout', /duration/],
    [
      'fraction for an integer',
      CLUSTER,
      { per_connection_buffer_limit_bytes: 1.5 },
      'per_connection_buffer_limit_bytes',
      /whole/,
    ],
    [
      'integer too large',
      CLUSTER,
      { per_connection_buffer_limit_bytes: 2 ** 32 },
      'per_connection_buffer_limit_bytes',
      /0 to/,
    ],
    ['object for a list', CLUSTER, { health_checks: {} }, 'health_checks', /list/],
    ['null in a list', CLUSTER, { health_checks: [null] }, 'health_checks[0]', /object/],
    ['two members of a oneof', CLUSTER, { type: 'EDS', cluster_type: {} }, 'cluster_type', /together with type/],
    ['one field under two names', CLUSTER, { altStatName: 'a', alt_stat_name: 'b' }, 'alt_stat_name', /twice/],
    ['Any of an unknown message', 'google.protobuf.Any', { '@type': 'x/no.such.M' }, '@type', /no.such.M is not known/],
    [
      'unknown field inside an Any',
      'envoy.config.core.v3.TypedExtensionConfig',
      { typed_config: { '@type': 'type.googleapis.com/envoy.extensions.filters.http.router.v3.Router', x: 1 } },
      'typed_config.x',
      /unknown field/,
    ],
  ];
  for (const [label, name, json, field, text] of rows) {
    await t.test(label, () => {
      assert.throws(
        () => fromProtoJson(name, json),
        (error) => error instanceof CtlError && error.location.field === field && text.test(error.message),
      );
    });
  }
});

test('deep nesting is refused, in both directions', () => {
  let json: unknown = 1;
  for (let i = 0; i < 5_000; i++) json = [json];
  assert.throws(() => fromProtoJson('google.protobuf.Value', json), /nested too deep/);
  let bytes: Uint8Array = new Uint8Array();
  for (let i = 0; i < 150; i++) {
    bytes = google.protobuf.Any.encode(packBytes('t/google.protobuf.Any', bytes)).finish();
  }
  assert.throws(() => toProtoJson('google.protobuf.Any', bytes), /nested too deep/);
});

test('bytes that are not of the message are refused', () => {
  assert.throws(
    () => toProtoJson(CLUSTER, Uint8Array.of(0x0a, 0xff)),
    /the bytes are not a valid envoy.config.cluster.v3.Cluster/,
  );
  assert.throws(() => toProtoJson('no.such.Message', new Uint8Array()), /not compiled/);
});

test('any JSON value is read back from a Value', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4, noUnicodeString: false }), (value) => {
      const text = JSON.stringify(value);
      assert.deepEqual(roundTrip('google.protobuf.Value', JSON.parse(text)), JSON.parse(text));
    }),
  );
});
