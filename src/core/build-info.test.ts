import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildInfo } from './build-info.ts';

test('without a build there are the version and the status Unbuilt', () => {
  const info = buildInfo();
  assert.match(info.version, /^\d+\.\d+\.\d+/);
  assert.deepEqual([info.revision, info.status, info.tag], ['unknown', 'Unbuilt', info.version]);
  assert.equal(info.nodeVersion, process.version);
});

test('a build has its revision', () => {
  const info = buildInfo('{"revision":"abc","status":"Clean","tag":""}');
  assert.deepEqual([info.revision, info.status, info.tag], ['abc', 'Clean', info.version]);
});
