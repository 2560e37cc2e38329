import assert from 'node:assert/strict';
import { test } from 'node:test';
import { problemLog } from './document-log.ts';

test('of thousands of refused documents the first are named and the rest counted; held policies are named all the same', () => {
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
  for (let n = 1; n <= 10_000; n++) log(`VirtualService/a/v${n}`, problem(n), undefined);
  assert.equal(lines[0], 'a.yaml:1: VirtualService/a/v1: spec.hosts: required');
  assert.ok(lines.length <= 50, `${lines.length} lines`);
  const written = lines.length;
  endWindow();
  assert.match(lines.at(-1) ?? '', new RegExp(`and ${10_000 - written} more .*v10000`));

  for (let n = 1; n <= 100; n++) log(`VirtualService/a/v${n}`, problem(n), undefined);
  const policy = { ...problem(1), id: 'policy' };
  log('policy', policy, { problem: policy, keys: [], inForce: 'last_good' });
  assert.match(lines.at(-1) ?? '', /the last good version stays in force$/);
  log('policy', undefined, undefined);
  assert.equal(lines.at(-1), 'info policy is in order again');
});
