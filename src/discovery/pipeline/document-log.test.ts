import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resource } from '../../store/testing/documents.ts';
import { problemLog, sharedLog, takeoverLog } from './document-log.ts';

test('the first of many refused documents are logged and the others counted; policies have their own limit', () => {
  const lines: string[] = [];
  let endWindow = (): void => {};
  const log = problemLog(
    { info: (line) => lines.push(`info ${line}`), error: (line) => lines.push(line) },
    (_ms, run) => {
      endWindow = run;
    },
  );
  const problem = (n: number) => ({
    id: `VirtualService/a/v${n}`,
    key: `VirtualService/a/v${n}`,
    origin: { source: 'directory', file: 'a.yaml', line: n },
    field: 'spec.hosts',
    message: 'required',
  });
  for (let n = 1; n <= 10_000; n++) log.refused(problem(n), undefined);
  assert.equal(lines[0], 'a.yaml:1: VirtualService/a/v1: spec.hosts: required');
  assert.ok(lines.length <= 50, `${lines.length} lines`);
  const written = lines.length;
  endWindow();
  assert.match(lines.at(-1) ?? '', new RegExp(`and ${10_000 - written} more .*v10000`));

  for (let n = 1; n <= 100; n++) log.refused(problem(n), undefined);
  const policy = { ...problem(1), id: 'policy' };
  log.refused(policy, { problem: policy, keys: [], inForce: 'last_good' });
  assert.match(lines.at(-1) ?? '', /the last good version stays in force$/);
  log.resolved(policy);
  assert.equal(lines.at(-1), 'info policy is no longer refused');
});

test('documents of one key in several sources are logged with the one in force', () => {
  const lines: string[] = [];
  const document = (source: string) => ({
    source,
    resource: resource('VirtualService', 'a', 1),
    replacesRefused: false,
  });
  sharedLog((line) => lines.push(line))('VirtualService/ns/a', ['directory', 'east', 'west'].map(document));
  assert.deepEqual(lines, [
    'VirtualService/ns/a: the document of source directory is in force, not that of east, west',
  ]);
});

test('a document that replaces a deleted one of another source is logged with both sources', () => {
  const lines: string[] = [];
  const document = { source: 'east', resource: resource('VirtualService', 'a', 1), replacesRefused: false };
  takeoverLog((line) => lines.push(line))('VirtualService/ns/a', 'directory', document);
  assert.deepEqual(lines, [
    'VirtualService/ns/a: deleted from source directory; the document of source east is now in force',
  ]);
});

test('a refused document without a file is named by its source', () => {
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  const log = problemLog({ info: write, error: write }, () => {});
  const problem = {
    id: 'Gateway/a/b',
    key: 'Gateway/a/b',
    origin: { source: 'east' },
    field: 'spec',
    message: 'required',
  };
  log.refused(problem, undefined);
  log.resolved(problem);
  assert.deepEqual(lines, ['east: Gateway/a/b: spec: required', 'east: Gateway/a/b is no longer refused']);
});
