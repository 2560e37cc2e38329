import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import * as fc from '../../core/testing/properties.ts';
import type { Attributes, Value } from '../../expressions/index.ts';
import { compiled } from '../testing/compiled.ts';
import { descriptorOf, protoRoot } from '../testing/descriptors.ts';
import type { PolicyConfig } from '../types.ts';
import { readDescriptors } from './dynamic/descriptors.ts';
import { compileTemplate } from './dynamic/template.ts';

const attributes = (values: Readonly<Record<string, Value>>): Attributes => ({ get: (name) => values[name] });

const VALUE = 'istio.policy.v1beta1.Value';
const MODEL = 'istio.mixer.adapter.model.v1beta1';
const ROOT = protoRoot(`
syntax = "proto3";
package tags;
service HandleTagsService { rpc HandleTags(HandleTagsRequest) returns (HandleTagsResponse); }
message HandleTagsRequest { InstanceMsg instance = 1; google.protobuf.Any adapter_config = 2; string dedup_id = 3; }
message HandleTagsResponse { ${MODEL}.CheckResult result = 1; OutputMsg output = 2; }
message OutputMsg {
  string tag = 1; int64 score = 2; bool ok = 3; map<string, string> all = 4; double ratio = 5;
  istio.policy.v1beta1.IPAddress ip = 6; istio.policy.v1beta1.DNSName host = 7;
}
enum Kind { NONE = 0; USER = 5; }
message Part { string path = 1; int32 depth = 2; }
message InstanceMsg {
  string name = 72295727; string subject = 1; map<string, ${VALUE}> properties = 2; int64 size = 3; bool secure = 4;
  double ratio = 5; ${VALUE} any_value = 6; istio.policy.v1beta1.TimeStamp time = 7; Kind kind = 8;
  repeated Part parts = 9;
  sint64 signed = 10; fixed32 fixed = 11; istio.policy.v1beta1.IPAddress ip = 12;
}
message Params {
  string url = 1; google.protobuf.Duration timeout = 2; repeated string groups = 3; map<string, int64> limits = 4;
}
`);
const TEMPLATE = descriptorOf(ROOT, 'tags', { variety: 4, name: 'tags' });
const CONFIG = descriptorOf(ROOT, 'tags');

const documents = (params: string, { handler = '', namespace = 'mesh-system', header = 'judge.output.tag' } = {}) => `
kind: template
metadata: { name: tags }
spec: { descriptor: ${TEMPLATE} }
---
kind: adapter
metadata: { name: tagger }
spec: { templates: [tags], config: ${CONFIG}, sessionBased: false }
---
kind: handler
metadata: { name: outside, namespace: ${namespace} }
spec:
  adapter: tagger.mesh-system
  params: { url: "http://a", timeout: 1.5s, groups: [a, b], limits: { a: 5 } }
  connection: { address: "tags.shop:9000", timeout: 2s${handler} }
---
kind: instance
metadata: { name: entry, namespace: ${namespace} }
spec: { template: tags.mesh-system, params: ${params} }
---
kind: rule
metadata: { name: r, namespace: ${namespace} }
spec:
  actions: [{ handler: outside, instances: [entry], name: judge }]
  requestHeaderOperations: [{ name: x-tag, values: [${header}] }]
`;

const PARAMS = `{
  subject: source.name, size: request.size, secure: connection.mtls, ratio: "0.5", anyValue: request.size,
  properties: { ip: source.ip, at: request.time, text: '"plain"', took: response.duration, map: source.labels },
  time: request.time, kind: USER, parts: [{ path: request.path, depth: 3 }, { path: '"/"' }], signed: -5, fixed: 7,
  ip: source.ip
}`;

const messages = ({ problems }: PolicyConfig): string[] =>
  problems.map(({ kind, name, field, message }) => `${kind}/${name}: ${field}: ${message}`);

describe('adapters outside', () => {
  test('a rule calls an adapter outside', () => {
    const config = compiled(documents(PARAMS.replace('kind: USER', 'kind: \'"USER"\'')));
    assert.deepEqual(messages(config), []);
    assert.deepEqual([config.counts.templates, config.counts.adapters], [1, 1]);
    const [action] = config.rules[0]?.actions ?? [];
    const [instance] = action?.instances ?? [];
    assert.ok(action !== undefined && instance?.dynamic !== undefined);
    assert.deepEqual(
      [instance.variety, instance.dynamic.method],
      ['CHECK_WITH_OUTPUT', '/tags.HandleTagsService/HandleTags'],
    );
    const built = instance.build(
      attributes({
        'source.name': 'front',
        'source.ip': Uint8Array.of(10, 0, 0, 1),
        'source.labels': new Map([['app', 'front']]),
        'request.size': -3n,
        'request.path': '/é',
        'request.time': { kind: 'timestamp', nanos: -1n },
        'response.duration': { kind: 'duration', nanos: -1_500_000_000n },
        'connection.mtls': true,
      }),
    );
    assert.ok(built.template === 'dynamic');
    const { handler } = action;
    assert.ok(handler.adapter === 'remote');
    const bytes = instance.dynamic.encodeRequest({
      instances: [built.message],
      params: handler.params,
      deduplicationId: 'd1',
    });
    const request = ROOT.lookupType('tags.HandleTagsRequest');
    const decoded = request.toObject(request.decode(bytes), { longs: String, enums: String, bytes: String });
    assert.deepEqual(decoded.instance, {
      name: 'entry.instance.mesh-system',
      subject: 'front',
      size: '-3',
      secure: true,
      ratio: 0.5,
      any_value: { int64_value: '-3' },
      properties: {
        ip: { ip_address_value: { value: 'CgAAAQ==' } },
        at: { timestamp_value: { value: { seconds: '-1', nanos: 999_999_999 } } },
        text: { string_value: 'plain' },
        took: { duration_value: { value: { seconds: '-1', nanos: -500_000_000 } } },
        map: { string_map_value: { value: { app: 'front' } } },
      },
      time: { value: { seconds: '-1', nanos: 999_999_999 } },
      kind: 'USER',
      parts: [{ path: '/é', depth: 3 }, { path: '/' }],
      signed: '-5',
      fixed: 7,
      ip: { value: 'CgAAAQ==' },
    });
    assert.equal(decoded.dedup_id, 'd1');
    assert.equal(decoded.adapter_config.type_url, 'type.googleapis.com/tags.Params');
    const params = ROOT.lookupType('tags.Params');
    assert.deepEqual(params.toObject(params.decode(handler.params.value), { longs: String }), {
      url: 'http://a',
      timeout: { seconds: '1', nanos: 500_000_000 },
      groups: ['a', 'b'],
      limits: { a: '5' },
    });
    assert.deepEqual(handler.connection, { address: 'tags.shop:9000', timeoutMs: 2000 });
  });

  test('templates with another name or descriptor have another fingerprint', () => {
    const other = descriptorOf(ROOT, 'tags', { variety: 4, name: 'others' });
    const of = (id: string, descriptor: string) => compileTemplate(id, descriptor).template.fingerprint;
    assert.equal(of('tags.a', TEMPLATE), of('tags.a', TEMPLATE));
    assert.equal(new Set([of('tags.a', TEMPLATE), of('tags.b', TEMPLATE), of('tags.a', other)]).size, 3);
  });

  test('the result of a check has the fields of the output, with their types', () => {
    const { template } = compileTemplate('tags.a', TEMPLATE);
    const response = ROOT.lookupType('tags.HandleTagsResponse');
    const bytes = response
      .encode(
        response.fromObject({
          result: {
            status: { code: 7, message: 'no' },
            valid_duration: { seconds: 2, nanos: 5e8 },
            valid_use_count: 9,
          },
          output: {
            tag: 't',
            score: -2,
            ok: true,
            all: { a: 'b', c: 'd' },
            ratio: 0.5,
            ip: { value: 'CgAAAQ==' },
            host: { value: 'h' },
          },
        }),
      )
      .finish();
    assert.deepEqual(template.decodeCheck(bytes), {
      status: { code: 7, message: 'no' },
      validDurationMs: 2500,
      validUseCount: 9,
      output: new Map<string, Value>([
        ['tag', 't'],
        ['score', -2n],
        ['ok', true],
        [
          'all',
          new Map([
            ['a', 'b'],
            ['c', 'd'],
          ]),
        ],
        ['ratio', 0.5],
        ['ip', Uint8Array.of(10, 0, 0, 1)],
        ['host', 'h'],
      ]),
    });
  });

  test('quotas are asked for and read by name', () => {
    const root = protoRoot(`
syntax = "proto3";
package limits;
service HandleLimitsService { rpc HandleLimits(HandleLimitsRequest) returns (${MODEL}.QuotaResult); }
message HandleLimitsRequest {
  InstanceMsg instance = 1; google.protobuf.Any adapter_config = 2; string dedup_id = 3;
  ${MODEL}.QuotaRequest quota_request = 4;
}
message InstanceMsg { string name = 72295727; }
`);
    const { template } = compileTemplate('l.a', descriptorOf(root, 'limits', { variety: 2, name: 'limits' }));
    const request = root.lookupType('limits.HandleLimitsRequest');
    const bytes = template.encodeRequest({
      instances: [new Uint8Array()],
      params: { adapter: 'a', typeUrl: '', value: new Uint8Array() },
      deduplicationId: 'd',
      quota: { name: 'q', amount: 3n, bestEffort: true },
    });
    assert.deepEqual(request.toObject(request.decode(bytes), { longs: String }), {
      instance: {},
      dedup_id: 'd',
      quota_request: { quotas: { q: { amount: '3', best_effort: true } } },
    });
    const result = root.lookupType(`${MODEL}.QuotaResult`);
    const answer = { quotas: { q: { granted_amount: 2, valid_duration: { seconds: 1 }, status: { code: 8 } } } };
    assert.deepEqual(
      template.decodeQuota(result.encode(result.fromObject(answer)).finish()),
      new Map([['q', { grantedAmount: 2, validDurationMs: 1000, status: { code: 8, message: '' } }]]),
    );
  });
});

test('a handler may be the client of an OAuth server, without scopes and further parameters', () => {
  const oauth = { clientId: 'a', clientSecret: '/s', tokenUrl: 'https://a/t' };
  const handler = `, authentication: { tls: { oauth: ${JSON.stringify(oauth)}, customHeader: X-Token } }`;
  const [found] = compiled(documents('{}', { handler })).handlers.values();
  const from = { ...oauth, scopes: [], endpointParams: {} };
  assert.deepEqual(found?.adapter === 'remote' && found.connection.authentication, {
    type: 'tls',
    token: { from, header: 'x-token', prefix: '' },
  });
});

describe('what is wrong is reported with its field', () => {
  const wrong = (name: string, text: string, expected: readonly RegExp[]): void => {
    test(name, () => {
      const found = messages(compiled(text));
      expected.forEach((each, index) => {
        assert.match(found[index] ?? '', each);
      });
    });
  };

  wrong('an expression of the wrong type', documents('{ subject: request.size }'), [
    /^instance\/entry: spec\.params\.subject: expected an expression of type STRING, got INT64$/,
    /^rule\/r: spec\.actions\[0\]\.instances\[0\]/,
  ]);
  wrong('an expression that is none, in a list', documents('{ parts: [{ path: "a ==" }] }'), [
    /^instance\/entry: spec\.params\.parts\[0\]\.path: column 5: expected a value/,
  ]);
  wrong('a field that the message has not', documents('{ subjekt: source.name }'), [
    /^instance\/entry: spec\.params\.subjekt: message tags\.InstanceMsg has no such field$/,
  ]);
  wrong('an output that the template has not', documents('{}', { header: 'judge.output.tags' }), [
    /^rule\/r: spec\.requestHeaderOperations\[0\]\.values\[0\]: column 1: unknown attribute "judge\.output\.tags"/,
  ]);
  wrong(
    'files of the program in a handler of a tenant',
    documents('{}', { namespace: 'a', handler: ', authentication: { tls: { tokenPath: /var/run/token } }' }),
    [/^handler\/outside: spec\.connection\.authentication: only handlers of namespace mesh-system may name files/],
  );
  wrong(
    'the client of an OAuth server in a handler of a tenant',
    documents('{}', {
      namespace: 'a',
      handler: ', authentication: { tls: { oauth: { clientId: a, clientSecret: /s, tokenUrl: "https://a/t" } } }',
    }),
    [/^handler\/outside: spec\.connection\.authentication: only handlers of namespace mesh-system may name files/],
  );
  wrong('a descriptor that is none', 'kind: template\nmetadata: { name: a }\nspec: { descriptor: AAAA }', [
    /^template\/a: spec\.descriptor: not a/,
  ]);
  wrong('a descriptor without a template', `kind: template\nmetadata: { name: a }\nspec: { descriptor: ${CONFIG} }`, [
    /^template\/a: spec\.descriptor: expected one file with the option template_variety$/,
  ]);
  wrong('an adapter whose template does not exist', 'kind: adapter\nmetadata: { name: a }\nspec: { templates: [b] }', [
    /^adapter\/a: spec\.templates\[0\]: template "b" does not exist or is wrong$/,
  ]);
});

describe('descriptors from outside', () => {
  test('any bytes are read or refused with one line', () => {
    const valid = Buffer.from(TEMPLATE, 'base64');
    const mutated = fc
      .array(fc.tuple(fc.nat(valid.length - 1), fc.nat(255)), { minLength: 1, maxLength: 8 })
      .map((changes) => {
        const bytes = Buffer.from(valid);
        for (const [at, byte] of changes) bytes[at] = byte;
        return bytes;
      });
    fc.assert(
      fc.property(
        fc.oneof(
          mutated,
          fc.uint8Array().map((bytes) => Buffer.from(bytes)),
        ),
        (bytes) => {
          try {
            compileTemplate('a.b', bytes.toString('base64'));
          } catch (error) {
            assert.ok(error instanceof CtlError, String(error));
          }
        },
      ),
    );
  });

  test('nesting and counts are limited', () => {
    const delimited = (field: number, content: Buffer): Buffer =>
      Buffer.concat([Buffer.from([field * 8 + 2]), lengthOf(content.length), content]);
    const lengthOf = (value: number): Buffer =>
      value < 128 ? Buffer.from([value]) : Buffer.concat([Buffer.from([(value & 127) | 128]), lengthOf(value >> 7)]);
    let message: Buffer = Buffer.alloc(0);
    for (let depth = 0; depth < 9; depth++) message = delimited(3, message);
    const deep = delimited(1, delimited(4, message)).toString('base64');
    assert.throws(() => readDescriptors(deep), /more than 8 messages inside each other/);
    const many = Buffer.concat(Array.from({ length: 65 }, () => delimited(1, Buffer.alloc(0)))).toString('base64');
    assert.throws(() => readDescriptors(many), /more than 64 files/);
    const wide = delimited(1, Buffer.concat(Array.from({ length: 1001 }, () => delimited(4, Buffer.alloc(0)))));
    assert.throws(() => readDescriptors(wide.toString('base64')), /more than 1000 messages/);
  });

  test('responses that are no messages are refused', () => {
    const { template } = compileTemplate('tags.a', TEMPLATE);
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        const decoders = [() => template.decodeCheck(bytes), () => template.decodeQuota(bytes)];
        for (const decode of decoders) {
          try {
            decode();
          } catch (error) {
            assert.ok(error instanceof CtlError, String(error));
          }
        }
      }),
    );
  });
});

test('parameters have at most 256 fields', () => {
  const many = (count: number) =>
    `{ properties: { ${Array.from({ length: count }, (_, index) => `k${index}: source.name`).join(', ')} } }`;
  assert.deepEqual(messages(compiled(documents(many(255)))), []);
  assert.match(
    messages(compiled(documents(many(256)))).join('\n'),
    /instance\/entry: spec\.params\.properties: expected at most 256 fields of parameters/,
  );
});
