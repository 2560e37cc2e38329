/** The reports of replicas: their size, and what is made of others' text. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MAX_BYTES, splitReport } from '../../object-status/index.ts';
import { decodeGateway, encodeReport, type GatewayReport } from './report.ts';

const report = (digests: readonly string[], rejected: readonly [string, string][] = []): GatewayReport =>
  new Map([['web-1', { acknowledged: new Set(digests), rejected: new Map(rejected) }]]);

test('a report is read as it was written, in an order that does not depend on its making', () => {
  const ofWeb = report(['b', 'a'], [['c', 'cannot bind']]);
  const { text, left } = encodeReport(
    new Map([
      ['edge/web', ofWeb],
      ['edge/api', report([])],
    ]),
  );
  assert.equal(left, 0);
  assert.equal(
    text,
    '{"edge/api":{"web-1":{"acknowledged":[]}},' +
      '"edge/web":{"web-1":{"acknowledged":["a","b"],"rejected":{"c":"cannot bind"}}}}',
  );
  assert.deepEqual(decodeGateway(splitReport(text).get('edge/web') ?? ''), ofWeb);
});

test('a report that is too large leaves Gateways out, first those of the namespaces with many', () => {
  const many = Array.from({ length: 4000 }, (_, index) => [`a/web-${index}`, report(['x'.repeat(100)])] as const);
  const { text, left } = encodeReport(new Map([...many, ['b/web', report(['y'])]]));
  assert.ok(Buffer.byteLength(text) <= MAX_BYTES);
  const read = splitReport(text);
  assert.equal(read.size, 4001 - left);
  assert.ok(left > 0 && read.has('b/web'));
});

test('data that is not a report is ignored', () => {
  for (const text of ['', '{', '[]', 'null', '"x"', '{"edge/web":1}', '{"edge/web":{"web-1":null}}'])
    for (const ofGateway of splitReport(text).values()) assert.equal(decodeGateway(ofGateway).size, 0, text);
  const strange = splitReport('{"edge/web":{"web-1":{"acknowledged":[1,"a"],"rejected":{"b":2}}}}').get('edge/web');
  assert.deepEqual(decodeGateway(strange ?? ''), report(['a']));
});
