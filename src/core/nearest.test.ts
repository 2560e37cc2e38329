import assert from 'node:assert/strict';
import { test } from 'node:test';
import { didYouMean, nearest } from './nearest.ts';

const FLAGS = ['grpcAddr', 'httpAddr', 'configDir', 'n', 'meshConfig', 'help'];

test('the most similar name is found, if one is similar enough', () => {
  for (const [word, expected] of [
    ['grpc-addr', 'grpcAddr'],
    ['GRPCADDR', 'grpcAddr'],
    ['cofnigDir', 'configDir'],
    ['htpAddr', 'httpAddr'],
    ['hlep', 'help'],
    ['zzzz', undefined],
    ['x'.repeat(100_000), undefined],
  ] as const) {
    assert.equal(nearest(word, FLAGS), expected, word.slice(0, 20));
  }
  assert.equal(
    didYouMean('meshconfg', FLAGS, (name) => `--${name}`),
    ', did you mean --meshConfig?',
  );
  assert.equal(didYouMean('zzzz', FLAGS), '');
});
