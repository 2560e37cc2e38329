import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../core/testing/properties.ts';
import { formatJson, formatText, type LogRecord } from './format.ts';

const RECORD: LogRecord = {
  time: Date.UTC(2026, 0, 1) + 1.234,
  level: 'info',
  scope: 'ads',
  message: 'connected',
  fields: undefined,
  caller: undefined,
  stack: undefined,
};

test('a text line has time, level, scope and message, separated by tabs', () => {
  assert.equal(formatText(RECORD), '2026-01-01T00:00:00.001234Z\tinfo\tads\tconnected\n');
});

test('a text line has the caller before the message and fields after it; the stack follows', () => {
  const record = {
    ...RECORD,
    caller: 'xds/stream.ts:12',
    fields: {
      node: 'a',
      why: 'two words',
      n: 3,
      list: ['x'],
      error: new Error('boom'),
      none: undefined,
      quote: 'a"b=c',
    },
    stack: '    at f (a.ts:1:2)',
  };
  assert.equal(
    formatText(record),
    '2026-01-01T00:00:00.001234Z\tinfo\tads\txds/stream.ts:12\tconnected' +
      '\tnode=a\twhy="two words"\tn=3\tlist=["x"]\terror=boom\tquote="a\\"b=c"\n    at f (a.ts:1:2)\n',
  );
});

test('JSON has the same parts as members, which fields cannot replace', () => {
  const fields = { node: 'a', error: new Error('boom'), big: 1n, nan: Number.NaN, msg: 'forged', level: 'debug' };
  assert.deepEqual(JSON.parse(formatJson({ ...RECORD, fields, caller: 'a.ts:1', stack: 'at f' })), {
    node: 'a',
    error: 'boom',
    big: '1',
    nan: 'NaN',
    time: '2026-01-01T00:00:00.001234Z',
    level: 'info',
    scope: 'ads',
    caller: 'a.ts:1',
    msg: 'connected',
    stack: 'at f',
  });
});

test('a record with a field that cannot be serialized is written', () => {
  const loop: Record<string, unknown> = {};
  loop.self = loop;
  assert.match(formatText({ ...RECORD, fields: { loop } }), /connected\tloop=\{"unprintable":/);
  assert.match(formatJson({ ...RECORD, fields: { loop } }), /unprintable/);
});

test('any message and field gives one line of text and one of JSON', () => {
  const anything = fc.oneof(fc.string({ unit: 'binary' }), fc.anything());
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary' }),
      fc.dictionary(fc.constantFrom('a', 'b'), anything),
      (message, fields) => {
        for (const line of [formatText({ ...RECORD, message, fields }), formatJson({ ...RECORD, message, fields })]) {
          // biome-ignore lint/suspicious/noControlCharactersInRegex: the test checks that there are none
          assert.doesNotMatch(line.slice(0, -1), /[\n\r\u0000\u001b\u0085\u2028]/);
          assert.ok(line.endsWith('\n'));
        }
      },
    ),
  );
});
