import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { type AnyResource, parseResource } from '../index.ts';

function read(kind: string, spec: unknown): ReturnType<typeof parseResource> {
  const raw = { apiVersion: 'config.istio.io/v1alpha2', kind, metadata: { name: 'a', namespace: 'b' }, spec };
  return parseResource(raw, { source: 'test' }, () => undefined);
}

function problemOf(kind: string, spec: string): string {
  const parsed = read(kind, parse(spec));
  assert.ok('problem' in parsed, JSON.stringify(parsed));
  return `${parsed.problem.field}: ${parsed.problem.message}`;
}

function resourceOf(kind: string, spec: string): AnyResource {
  const parsed = read(kind, parse(spec));
  assert.ok('resource' in parsed, JSON.stringify(parsed));
  return parsed.resource;
}

describe('documents that are accepted', () => {
  test('have the kind that they write, in lower case, and one API version for both groups', () => {
    assert.equal(resourceOf('handler', '{ compiledAdapter: denier }').kind, 'handler');
  });

  test('with another version or a misspelt kind they are refused, and other kinds of the group are ignored', () => {
    const parsed = (apiVersion: string, kind: string) => {
      const found = parseResource({ apiVersion, kind }, { source: 'a' }, () => undefined);
      return 'problem' in found ? `${found.problem.field}: ${found.problem.message}` : Object.keys(found).join();
    };
    const group = 'config.istio.io';
    assert.equal(
      parsed(`${group}/v1`, 'handler'),
      'apiVersion: expected config.mesh.io/v1alpha2 for handler, got "config.istio.io/v1"',
    );
    assert.equal(parsed(`${group}/v1alpha2`, 'Rule'), 'kind: expected rule, got "Rule"');
    assert.equal(parsed(`${group}/v1alpha2`, 'QuotaSpec'), 'ignored');
  });

  test('have expressions of any language', () => {
    for (const match of ['a.b | "c" == "d"', 'has(a.b) ? a.c : true']) {
      resourceOf('rule', JSON.stringify({ match, actions: [{ handler: 'h', instances: ['i'] }] }));
    }
  });
});

test('authors are told of fields that no adapter inside reads', () => {
  const params = '{ value: "1", monitored_resource_type: "a.b", monitoredResourceDimensions: {} }';
  const { warnings = [] } = resourceOf('instance', `{ compiledTemplate: metric, params: ${params} }`);
  assert.deepEqual(
    warnings.map(({ field }) => field),
    ['spec.params.monitored_resource_type', 'spec.params.monitoredResourceDimensions'],
  );
});

test('authors are told of settings of handlers that have no effect', () => {
  const warned = (spec: string) => (resourceOf('handler', spec).warnings ?? []).map(({ field }) => field);
  assert.deepEqual(warned('{ compiledAdapter: denier, params: { validDuration: 5s, valid_use_count: 2 } }'), [
    'spec.params.validDuration',
    'spec.params.valid_use_count',
  ]);
  const list = '{ overrides: [a], cachingInterval: 1s, caching_use_count: 1 }';
  assert.deepEqual(warned(`{ compiledAdapter: listchecker, params: ${list} }`), [
    'spec.params.cachingInterval',
    'spec.params.caching_use_count',
  ]);
  assert.deepEqual(warned('{ compiledAdapter: memquota, params: { minDeduplicationDuration: 1s } }'), [
    'spec.params.minDeduplicationDuration',
  ]);
  assert.deepEqual(warned('{ compiledAdapter: denier }'), []);
});

describe('documents that are refused, with the field', () => {
  const rows: readonly (readonly [kind: string, spec: string, expected: RegExp])[] = [
    [
      'attributemanifest',
      '{ attributes: { a..b: { valueType: STRING } } }',
      /^spec\.attributes\["a\.\.b"\]: expected a name/,
    ],
    ['attributemanifest', '{ attributes: { a.b: { valueType: TEXT } } }', /valueType: expected one of STRING, INT64/],
    ['template', '{ descriptor: "?" }', /^spec\.descriptor: expected a FileDescriptorSet in base64/],
    ['template', JSON.stringify({ descriptor: 'A'.repeat(349_529) }), /^spec\.descriptor: expected at most 349528/],
    ['adapter', '{ templates: [] }', /^spec\.templates: expected at least one template/],
    ['adapter', '{ templates: [a], sessionBased: true }', /^spec\.sessionBased: adapters with sessions/],
    ['instance', '{}', /^spec: expected either compiledTemplate or template/],
    ['instance', '{ compiledTemplate: tracespan }', /^spec\.compiledTemplate: expected one of checknothing/],
    ['instance', '{ compiledTemplate: listentry }', /^spec\.params\.value: required/],
    [
      'instance',
      '{ compiledTemplate: metric, params: { value: "1", dimensoins: {} } }',
      /^spec\.params\.dimensoins: unknown/,
    ],
    ['handler', '{}', /^spec: expected either compiledAdapter or adapter/],
    ['handler', '{ adapter: a }', /^spec\.connection: required for an adapter outside/],
    ['handler', '{ compiledAdapter: denier, connection: { address: "a:1" } }', /^spec\.connection: no effect/],
    ['handler', '{ adapter: a, connection: { address: a } }', /^spec\.connection\.address: expected HOST:PORT/],
    [
      'handler',
      '{ adapter: a, connection: { address: "a:1", authentication: { tls: {}, mutual: {} } } }',
      /^spec\.connection\.authentication: expected exactly one of tls and mutual/,
    ],
    [
      'handler',
      '{ adapter: a, connection: { address: "a:1", authentication: { tls: { authHeader: BEARER } } } }',
      /tls\.tokenPath: required for a header/,
    ],
    ...(
      [
        [
          'tokenPath: /t, oauth: { clientId: a, clientSecret: /s, tokenUrl: "https://a/t" }',
          /at most one of tokenPath/,
        ],
        [
          'oauth: { clientId: a, clientSecret: /s, tokenUrl: "http://a/t" }',
          /oauth\.tokenUrl: expected a URL with https/,
        ],
        ['oauth: { clientId: "", clientSecret: /s, tokenUrl: "https://a/t" }', /oauth\.clientId: must not be empty/],
        ['oauth: { clientId: a, clientSecret: /s, tokenUrl: "https://b:c@a/t" }', /without credentials/],
        [
          'oauth: { clientId: a, clientSecret: /s, tokenUrl: "https://a/t", scopes: [a b] }',
          /oauth\.scopes\[0\]: expected the name of a scope/,
        ],
        [
          'oauth: { clientId: a, clientSecret: /s, tokenUrl: "https://a/t", endpointParams: { scope: x } }',
          /endpointParams\.scope: is no further parameter/,
        ],
      ] as const
    ).map(
      ([tls, message]) =>
        [
          'handler',
          `{ adapter: a, connection: { address: "a:1", authentication: { tls: { ${tls} } } } }`,
          message,
        ] as const,
    ),
    [
      'handler',
      '{ compiledAdapter: denier, params: { status: { code: 0 } } }',
      /^spec\.params\.status\.code: expected a code/,
    ],
    [
      'handler',
      '{ compiledAdapter: stdio, params: { logStream: FILE } }',
      /^spec\.params\.logStream: expected one of STDOUT/,
    ],
    [
      'handler',
      '{ compiledAdapter: listchecker, params: { entryType: IP_ADDRESSES, overrides: [10.0.0.0/40] } }',
      /^spec\.params\.overrides\[0\]: expected an IP address/,
    ],
    [
      'handler',
      '{ compiledAdapter: listchecker, params: { entryType: REGEX, overrides: ["("] } }',
      /^spec\.params\.overrides\[0\]: expected a regular expression/,
    ],
    [
      'handler',
      '{ compiledAdapter: listchecker, params: { providerUrl: "ftp://a" } }',
      /^spec\.params\.providerUrl: expected a URL/,
    ],
    [
      'handler',
      '{ compiledAdapter: listchecker, params: { providerUrl: "http://a/", ttl: 1s } }',
      /^spec\.params\.ttl: expected a duration of at least refreshInterval/,
    ],
    [
      'handler',
      '{ compiledAdapter: memquota, params: { quotas: [{ name: a, maxAmount: 1 }, { name: a, maxAmount: 2 }] } }',
      /^spec\.params\.quotas\[1\]\.name: expected one quota for each instance/,
    ],
    ['handler', '{ compiledAdapter: redisquota }', /^spec\.params\.quotas: required/],
    [
      'handler',
      '{ compiledAdapter: redisquota, params: { quotas: [{ name: a, maxAmount: 1, validDuration: 1s, rateLimitAlgorithm: ROLLING_WINDOW }] } }',
      /^spec\.params\.quotas\[0\]\.bucketDuration: expected a duration shorter/,
    ],
    [
      'handler',
      '{ compiledAdapter: prometheus, params: { metrics: [{ instanceName: a, kind: DISTRIBUTION }] } }',
      /^spec\.params\.metrics\[0\]\.buckets: expected one of linearBuckets/,
    ],
    [
      'handler',
      '{ compiledAdapter: prometheus, params: { metrics: [{ instance_name: a, kind: COUNTER, label_names: ["a-b"] }] } }',
      /^spec\.params\.metrics\[0\]\.labelNames\[0\]: expected the name of a label/,
    ],
    [
      'handler',
      '{ compiledAdapter: prometheus, params: { metrics: [{ instanceName: a, kind: COUNTER, labelNames: [policy_handler] }] } }',
      /labelNames\[0\]: expected another name/,
    ],
    [
      'handler',
      '{ compiledAdapter: prometheus, params: { metrics: [{ instanceName: a, kind: COUNTER, labelNames: [le] }] } }',
      /labelNames\[0\]: expected another name/,
    ],
    [
      'handler',
      '{ compiledAdapter: prometheus, params: { metrics: [{ instanceName: a, kind: COUNTER, labelNames: [b, c, b] }] } }',
      /labelNames\[2\]: expected each label once/,
    ],
    [
      'handler',
      '{ compiledAdapter: prometheus, params: { metrics: [{ instanceName: a, name: b.c, kind: COUNTER }, { instanceName: b, name: b_c, kind: GAUGE }] } }',
      /metrics\[1\]\.name: expected one metric istio_b_c of the handler/,
    ],
    [
      'handler',
      JSON.stringify({
        compiledAdapter: 'listchecker',
        params: { entryType: 'REGEX', overrides: Array(501).fill('a') },
      }),
      /^spec\.params\.overrides: expected at most 500 entries/,
    ],
    ['rule', '{}', /^spec\.actions: expected at least one action or header operation/],
    [
      'rule',
      '{ match: "a ==", actions: [{ handler: h, instances: [i] }] }',
      /^spec\.match: column 5: expected a value/,
    ],
    ['rule', '{ actions: [{ handler: h }] }', /^spec\.actions\[0\]\.instances: expected at least one instance/],
    [
      'rule',
      '{ actions: [{ handler: h, instances: [i], name: a }, { handler: h, instances: [i], name: a }] }',
      /^spec\.actions\[1\]\.name: expected a name/,
    ],
    [
      'rule',
      '{ responseHeaderOperations: [{ name: a, operation: REMOVE }] }',
      /^spec\.responseHeaderOperations\[0\]\.operation: Envoy removes no header of a response/,
    ],
    [
      'rule',
      '{ requestHeaderOperations: [{ name: a, operation: REMOVE, values: [source.name] }] }',
      /^spec\.requestHeaderOperations\[0\]\.values: REMOVE has none/,
    ],
    [
      'rule',
      '{ requestHeaderOperations: [{ name: "a b", values: [x] }] }',
      /\[0\]\.name: expected the name of a header/,
    ],
    [
      'rule',
      '{ requestHeaderOperations: [{ name: Host, values: [x] }] }',
      /\[0\]\.name: this header cannot be changed/,
    ],
    [
      'rule',
      '{ responseHeaderOperations: [{ name: a }] }',
      /^spec\.responseHeaderOperations\[0\]\.values: expected at least/,
    ],
  ];
  for (const [kind, spec, expected] of rows) {
    test(`${kind} ${spec.slice(0, 90)}`, () => assert.match(problemOf(kind, spec), expected));
  }
});
