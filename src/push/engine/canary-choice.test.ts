import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Trial } from '../canary/index.ts';
import type { Session, SessionView } from '../sessions/index.ts';
import { CanaryChoice } from './canary-choice.ts';

it('a canary is chosen without a look at what all other proxies have', () => {
  const view = { sessions: new Set<Session>(), committedVersion: 1 } as unknown as SessionView;
  for (let index = 0; index < 100; index++) {
    const session = { caller: 'a', sink: { answerOf: () => 'accepted' }, partOf: () => ({}), settled: true };
    (view.sessions as Set<Session>).add(session as unknown as Session);
  }
  const choice = new CanaryChoice({ now: () => 0, random: () => 0 });
  let asked = 0;
  const isFit = (): boolean => ++asked > 0;
  const chosen = choice.next(view, new Trial(new Set(['item']), 300), {
    candidates: view.sessions,
    isCanary: () => false,
    isFit,
  });
  assert.deepEqual([chosen !== undefined, asked], [true, 1]);
});
