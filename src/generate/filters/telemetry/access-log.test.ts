import assert from 'node:assert/strict';
import { test } from 'node:test';
import { envoy, type google } from '../../../protobuf/index.ts';
import { accessLog, type FileLog, writtenFormat } from './access-log.ts';

const EVERYTHING = { capabilities: { extensions: undefined, sds: false } };

function file(path: string, format: FileLog['format'] = { json: false }): FileLog {
  return { to: 'file', path, format };
}

function formatOf(text: string, encoding: 'TEXT' | 'JSON') {
  const log = accessLog(file('/var/log/access.log', writtenFormat(text, encoding)), 'requests', EVERYTHING);
  const bytes = log?.typedConfig?.value ?? new Uint8Array();
  return envoy.extensions.access_loggers.file.v3.FileAccessLog.decode(bytes).logFormat;
}

function fieldsOf(format: { readonly jsonFormat: google.protobuf.Struct | null } | null) {
  return format?.jsonFormat?.fields ?? {};
}

test('standard streams have stream loggers, other files file loggers', () => {
  const names = ['/dev/stdout', '/dev/stderr', '/tmp/log'].map(
    (path) => accessLog(file(path), 'requests', EVERYTHING)?.name,
  );
  assert.deepEqual(names, ['envoy.access_loggers.stdout', 'envoy.access_loggers.stderr', 'envoy.access_loggers.file']);
});

test('an Envoy without the stream logger opens the stream as a file; one without any logs nothing', () => {
  const only = (...extensions: string[]) =>
    accessLog(file('/dev/stdout'), 'requests', { capabilities: { extensions, sds: false } });
  assert.equal(only('envoy.access_loggers.file')?.name, 'envoy.access_loggers.file');
  assert.equal(only('envoy.filters.http.router'), undefined);
});

test('text formats end with an end of line', () => {
  const textOf = (text: string) => formatOf(text, 'TEXT')?.textFormatSource?.inlineString;
  assert.equal(textOf('%PROTOCOL%'), '%PROTOCOL%\n');
  assert.equal(textOf('%PROTOCOL%\n'), '%PROTOCOL%\n');
  assert.match(textOf('') ?? '', /^\[%START_TIME%\] "%REQ\(:METHOD\)% .*%ROUTE_NAME%\n$/);
});

test('JSON formats are the object that is logged, with its nesting', () => {
  const fields = fieldsOf(formatOf('{"code": "%RESPONSE_CODE%", "in": {"n": 1}}', 'JSON'));
  assert.equal(fields.code?.stringValue, '%RESPONSE_CODE%');
  assert.equal(fields.in?.structValue?.fields.n?.numberValue, 1);
});

for (const text of ['', '[1]', 'not json', 'null']) {
  test(`the JSON format ${JSON.stringify(text)} means the default fields`, () => {
    const fields = fieldsOf(formatOf(text, 'JSON'));
    assert.equal(fields.response_code?.stringValue, '%RESPONSE_CODE%');
    assert.ok(Object.keys(fields).length > 20);
  });
}
