import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { JobAnswer } from '../../workers/protocol.ts';
import type { GeneratedResource } from '../generate/types.ts';
import { encodeResource } from './encode-resource.ts';
import type { EncodedResource } from './types.ts';
import { HeardUnits, SaidUnits } from './unit-numbers.ts';

function generated(name: string): GeneratedResource {
  return { name, bytes: Buffer.from(name), refs: [] };
}

function encoded(name: string): EncodedResource {
  return encodeResource('cds', name, '1', Buffer.from(name), []);
}

/** An answer that names these units and tells none. */
function naming(...numbers: readonly number[]): JobAnswer[] {
  const units = numbers.map((number) => ({ type: 'cds', unit: `${number}`, number, resources: undefined }) as const);
  return [{ viewKey: 'v', gone: false, units, complete: ['cds'], findings: [], failures: [] }];
}

async function collect(): Promise<void> {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  // What a WeakRef has given is held to the end of the turn.
  await new Promise((resolve) => setImmediate(resolve));
  gc();
}

describe('said units', () => {
  it('are said once, whatever list the same resources come in', () => {
    const said = new SaidUnits();
    const [a, b] = [generated('a'), generated('b')];
    const first = said.say([a, b]);
    assert.equal(first.again, false);
    assert.deepEqual(said.say([a, b]), { number: first.number, again: true });
  });

  it('are others when any resource is another object, is missing or stands elsewhere', () => {
    const said = new SaidUnits();
    const [a, b, like] = [generated('a'), generated('b'), generated('a')];
    const units = [[a, b], [a], [a, like], [b, a], [like, b], [b], [a, b, b]];
    const answers = units.map((unit) => said.say(unit));
    assert.ok(answers.every(({ again }) => !again));
    assert.equal(new Set(answers.map(({ number }) => number)).size, units.length);
  });

  it('that are empty are told each time', () => {
    const said = new SaidUnits();
    said.say([]);
    assert.equal(said.say([]).again, false);
  });

  it('of one first resource are remembered up to a bound, the oldest goes first', () => {
    const said = new SaidUnits();
    const first = generated('first');
    const units = Array.from({ length: 25 }, (_, index) => [first, generated(`${index}`)]);
    for (const unit of units) said.say(unit);
    assert.ok(units.slice(1).every((unit) => said.say(unit).again));
    assert.equal(said.say(units[0] ?? []).again, false);
  });
});

describe('heard units', () => {
  it('are recalled by their numbers, all or none', () => {
    const heard = new HeardUnits();
    const [one, two] = [[encoded('a')], [encoded('b')]];
    heard.hear(1, one);
    heard.hear(2, two);
    const recalled = heard.recall(naming(2, 1));
    assert.deepEqual([recalled?.get(1) === one, recalled?.get(2) === two], [true, true]);
    assert.equal(heard.recall(naming(1, 3)), undefined);
  });

  it('are not held: what nobody has is gone, and swept out', async () => {
    const heard = new HeardUnits();
    const kept = [encoded('kept')];
    heard.hear(1, kept);
    for (let number = 2; number <= 1024; number++) heard.hear(number, [encoded('gone')]);
    await collect();
    assert.equal(heard.recall(naming(2)), undefined);
    assert.equal(heard.recall(naming(1))?.get(1), kept);
    heard.hear(1025, kept);
    assert.equal(heard.size, 2);
  });
});
