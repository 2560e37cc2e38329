import assert from 'node:assert/strict';
import { test } from 'node:test';
import { envoy, type google } from '../../../protobuf/index.ts';
import { defaultMeshConfig, type MeshConfig } from '../../../resources/mesh-config.ts';
import { accessLogs } from './access-log.ts';

const EVERYTHING = { capabilities: { extensions: undefined, sds: false } };

function meshOf(changes: Partial<MeshConfig>): MeshConfig {
  return { ...defaultMeshConfig(), ...changes };
}

function formatOf(changes: Partial<MeshConfig>) {
  const [log] = accessLogs(meshOf({ accessLogFile: '/var/log/access.log', ...changes }), EVERYTHING);
  const bytes = log?.typedConfig?.value ?? new Uint8Array();
  return envoy.extensions.access_loggers.file.v3.FileAccessLog.decode(bytes).logFormat;
}

function fieldsOf(format: { readonly jsonFormat: google.protobuf.Struct | null } | null) {
  return format?.jsonFormat?.fields ?? {};
}

test('without a file there is no access log', () => {
  assert.deepEqual(accessLogs(meshOf({}), EVERYTHING), []);
});

test('standard streams have stream loggers, other files file loggers', () => {
  const names = ['/dev/stdout', '/dev/stderr', '/tmp/log'].map(
    (accessLogFile) => accessLogs(meshOf({ accessLogFile }), EVERYTHING)[0]?.name,
  );
  assert.deepEqual(names, ['envoy.access_loggers.stdout', 'envoy.access_loggers.stderr', 'envoy.access_loggers.file']);
});

test('an Envoy without the stream logger opens the stream as a file; one without any logs nothing', () => {
  const mesh = meshOf({ accessLogFile: '/dev/stdout' });
  const only = (...extensions: string[]) => accessLogs(mesh, { capabilities: { extensions, sds: false } });
  assert.equal(only('envoy.access_loggers.file')[0]?.name, 'envoy.access_loggers.file');
  assert.deepEqual(only('envoy.filters.http.router'), []);
});

test('text formats end with an end of line', () => {
  const textOf = (accessLogFormat: string) => formatOf({ accessLogFormat })?.textFormatSource?.inlineString;
  assert.equal(textOf('%PROTOCOL%'), '%PROTOCOL%\n');
  assert.equal(textOf('%PROTOCOL%\n'), '%PROTOCOL%\n');
  assert.match(textOf('') ?? '', /^\[%START_TIME%\] "%REQ\(:METHOD\)% .*%ROUTE_NAME%\n$/);
});

test('JSON formats are the object that is logged, with its nesting', () => {
  const format = { accessLogEncoding: 'JSON', accessLogFormat: '{"code": "%RESPONSE_CODE%", "in": {"n": 1}}' } as const;
  const fields = fieldsOf(formatOf(format));
  assert.equal(fields.code?.stringValue, '%RESPONSE_CODE%');
  assert.equal(fields.in?.structValue?.fields.n?.numberValue, 1);
});

for (const accessLogFormat of ['', '[1]', 'not json', 'null']) {
  test(`the JSON format ${JSON.stringify(accessLogFormat)} means the default fields`, () => {
    const fields = fieldsOf(formatOf({ accessLogEncoding: 'JSON', accessLogFormat }));
    assert.equal(fields.response_code?.stringValue, '%RESPONSE_CODE%');
    assert.ok(Object.keys(fields).length > 20);
  });
}
