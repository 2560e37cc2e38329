import assert from 'node:assert/strict';
import { test } from 'node:test';
import { google } from '../../protobuf/index.ts';
import { readTracing } from './node-tracing.ts';

const { Value } = google.protobuf;
type Input = google.protobuf.Value.Input;

const struct = (fields: Readonly<Record<string, Input>>): Input => ({ structValue: { fields } });
const text = (stringValue: string): Input => ({ stringValue });
const read = (value: Input) => readTracing(Buffer.from(Value.encode(value).finish()));

test('sampling, path length and tags are read; addresses of collectors are not', () => {
  const tags = { tier: struct({ literal: struct({ value: text('gold') }) }) };
  const tracing = {
    zipkin: struct({ address: text('zipkin:9411') }),
    sampling: { numberValue: 12.5 },
    maxPathTagLength: { numberValue: 64 },
    customTags: struct(tags),
    enableIstioTags: { boolValue: true },
  };
  assert.deepEqual(read(struct(tracing)), {
    sampling: 12.5,
    maxPathTagLength: 64,
    customTags: { tier: { literal: { value: 'gold' } } },
    enableIstioTags: true,
  });
  assert.deepEqual(read(struct({ zipkin: struct({ address: text('zipkin:9411') }) })), {});
});

test('values that are invalid, too large or nested too deep are ignored', () => {
  assert.equal(read(text('yes')), undefined);
  assert.equal(read(struct({ sampling: { numberValue: 101 } })), undefined);
  const tag = struct({ literal: struct({ value: text('x'.repeat(1000)) }) });
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`t${index}`, tag]));
  assert.equal(read(struct({ customTags: struct(many(40)) })), undefined);
  assert.equal(read(struct({ customTags: struct(many(65)) })), undefined);
  let deep: Input = text('end');
  for (let depth = 0; depth < 50; depth++) deep = struct({ customTags: deep });
  assert.equal(read(deep), undefined);
});
