import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ParsedResource } from '../../resources/index.ts';
import { createIgnoredKinds, newlyIgnored } from './ignored-kinds.ts';

function loggedKinds() {
  const lines: string[] = [];
  const kinds = createIgnoredKinds({
    info: (message) => void lines.push(`info ${message}`),
    warn: (message) => void lines.push(`warn ${message}`),
  });
  return { kinds, lines };
}

function ignored(what: string, file: string, line: number, concern?: string): ParsedResource {
  return {
    ignored: { what, origin: { source: 'directory', file, line }, ...(concern === undefined ? {} : { concern }) },
  };
}

test('each kind is reported once, with its count and first location; kinds meant for the mesh are a warning', () => {
  const { kinds, lines } = loggedKinds();
  kinds.note([ignored('apps/v1 Deployment', '/a.yaml', 3), ignored('apps/v1 Deployment', '/a.yaml', 9)]);
  kinds.note([ignored('telemetry.istio.io/v1 Telemetry', '/b.yaml', 1, 'not served')]);
  assert.deepEqual(lines, []);
  kinds.tell();
  assert.deepEqual(lines, [
    'info not read: 2 documents of apps/v1 Deployment (the first is /a.yaml:3)',
    'warn not read: 1 document of telemetry.istio.io/v1 Telemetry (/b.yaml:1): not served',
  ]);
  kinds.note([ignored('apps/v1 Deployment', '/c.yaml', 1)]);
  kinds.tell();
  assert.equal(lines.length, 2);
});

test('however many kinds there are, the lines are bounded', () => {
  const { kinds, lines } = loggedKinds();
  for (let index = 0; index < 1000; index++) {
    kinds.note([ignored(`made.up/v1 Kind${index}`, '/a.yaml', 1)]);
    if (index % 150 === 0) kinds.tell();
  }
  kinds.tell();
  assert.equal(lines.length, 201);
  assert.match(lines.at(-1) ?? '', /^warn .*more than 200 kinds/);
});

test('documents that were perhaps meant for the mesh count when they appear, not each time the file is read', () => {
  const other = ignored('apps/v1 Deployment', '/a.yaml', 3);
  const one = ignored('telemetry.istio.io/v1 Telemetry', '/a.yaml', 1, 'not served');
  assert.equal(newlyIgnored([], [other, one, one]), 2);
  assert.equal(newlyIgnored([other, one, one], [one, other, one]), 0);
  assert.equal(newlyIgnored([one], [one, one, one]), 2);
});
