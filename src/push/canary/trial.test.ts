import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ResourceAnswer } from '../types.ts';
import { MAX_CANARIES, Trial } from './trial.ts';

const NO: ResourceAnswer = { rejected: 'no good', certain: true };
const PERHAPS: ResourceAnswer = { rejected: 'no good', certain: false };

/** A trial of one item with canaries `<caller>/<number>` that answered this. */
function tried(answers: Readonly<Record<string, ResourceAnswer>>): Trial<string> {
  const trial = new Trial<string>(new Set(['item']), 300);
  for (const canary of Object.keys(answers)) trial.add(canary, canary.split('/')[0] ?? '');
  for (const [canary, answer] of Object.entries(answers)) trial.answered(canary, () => answer);
  return trial;
}

function result(trial: Trial<string>, callers: number): string {
  const { accepted, refused } = trial.outcome(callers);
  return accepted.has('item') ? 'accepted' : refused.has('item') ? 'refused' : 'released';
}

describe('a trial', () => {
  for (const [what, answers, callers, expected] of [
    ['that one canary accepts is accepted, whatever another says', { 'a/1': NO, 'b/1': 'accepted' }, 2, 'accepted'],
    ['that two callers reject is refused', { 'a/1': NO, 'b/1': NO }, 2, 'refused'],
    ['that one caller rejects among several is released', { 'a/1': NO, 'a/2': NO }, 2, 'released'],
    ['that the only caller rejects is refused', { 'a/1': NO, 'a/2': NO }, 1, 'refused'],
    [
      'that only one proxy of the only caller rejects in time is refused',
      { 'a/1': NO, 'a/2': 'outstanding' },
      1,
      'refused',
    ],
    ['whose rejected resource is still searched for is refused', { 'a/1': PERHAPS, 'a/2': PERHAPS }, 1, 'refused'],
    ['without an answer is released', { 'a/1': 'outstanding', 'b/1': 'outstanding' }, 2, 'released'],
    ['that no canary subscribes to is released', { 'a/1': 'unrequested', 'b/1': 'unrequested' }, 2, 'released'],
  ] as const) {
    it(what, () => assert.equal(result(tried(answers), callers), expected));
  }

  it('is decided by an acceptance, or when all have answered', () => {
    assert.equal(tried({ 'a/1': 'accepted', 'b/1': 'outstanding' }).decided, true);
    assert.equal(tried({ 'a/1': NO, 'b/1': 'outstanding' }).decided, false);
    assert.equal(tried({ 'a/1': NO, 'b/1': PERHAPS }).decided, false);
    assert.equal(tried({ 'a/1': NO, 'b/1': 'unrequested' }).decided, true);
  });

  it('does not ask again about what the canary has accepted', () => {
    const trial = new Trial<string>(new Set(['one', 'two']), 300);
    trial.add('a/1', 'a');
    trial.answered('a/1', (item) => (item === 'one' ? 'accepted' : 'outstanding'));
    const asked: string[] = [];
    trial.answered('a/1', (item) => {
      asked.push(item);
      return 'accepted';
    });
    assert.deepEqual([asked, trial.decided], [['two'], true]);
  });

  it('replaces canaries that leave, a few times, and forgets what they said', () => {
    const trial = new Trial<number>(new Set(['item']), 300);
    for (let canary = 0; canary < 10; canary++) {
      trial.add(canary, 'a');
      trial.answered(canary, () => NO);
      trial.remove(canary);
      if (!trial.needsCanary) assert.equal(canary, MAX_CANARIES - 1);
      if (!trial.needsCanary) break;
    }
    assert.deepEqual([trial.needsCanary, trial.outcome(1).refused.size], [false, 0]);
  });
});
