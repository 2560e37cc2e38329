import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mergedPush, type Push } from './push.ts';

test('changes of several parts are one push with the earliest event time and the newest version', () => {
  const later: Push = { types: new Set(['cds']), version: 4, eventTime: 5, reasons: new Set(['config']) };
  const earlier: Push = { types: new Set(['lds']), version: 3, eventTime: 3, reasons: new Set(['proxy']) };
  assert.deepEqual(mergedPush(later, earlier), {
    types: new Set(['cds', 'lds']),
    version: 4,
    eventTime: 3,
    reasons: new Set(['config', 'proxy']),
  });
  assert.equal(mergedPush(later, undefined), later);
});
