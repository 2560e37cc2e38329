import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { GeneratedResource } from '../../generate/types.ts';
import { encodeResource } from '../bundles/encode-resource.ts';
import type { JobAnswer } from '../protocol.ts';
import { scopeOfKey } from '../proxies/proxy-views.ts';
import { NO_READS } from '../reads/read-numbers.ts';
import { collectGarbage } from '../testing/mesh.ts';
import type { EncodedResource } from '../types.ts';
import { ReceivedUnits, SentUnits } from './unit-numbers.ts';

function generated(name: string): GeneratedResource {
  return { name, bytes: Buffer.from(name), refs: [] };
}

function encoded(name: string): EncodedResource {
  return encodeResource('cds', name, '1', Buffer.from(name), []);
}

/** An answer that names these units and tells none. */
function naming(...numbers: readonly number[]): JobAnswer[] {
  const units = numbers.map((number) => {
    return { type: 'cds', unit: `${number}`, number, reads: NO_READS, resources: undefined } as const;
  });
  return [
    { viewKey: 'v', gone: false, units, milliseconds: {}, complete: ['cds'], findings: [], failures: [], lists: {} },
  ];
}

describe('said units', () => {
  it('are said once, whatever list the same resources come in', () => {
    const said = new SentUnits();
    const [a, b] = [generated('a'), generated('b')];
    const first = said.send([a, b], 'p');
    assert.deepEqual(first.resources, [a, b]);
    assert.deepEqual(said.send([a, b], 'p'), { number: first.number, resources: undefined });
  });

  it('are others when any resource is another object, is missing or stands elsewhere', () => {
    const said = new SentUnits();
    const [a, b, like] = [generated('a'), generated('b'), generated('a')];
    const units = [[a, b], [a], [a, like], [b, a], [like, b], [b], [a, b, b]];
    const answers = units.map((unit) => said.send(unit, 'p'));
    assert.deepEqual(
      answers.map(({ resources }) => resources),
      units,
    );
    assert.equal(new Set(answers.map(({ number }) => number)).size, units.length);
  });

  it('that are empty are told each time', () => {
    const said = new SentUnits();
    said.send([], 'p');
    assert.deepEqual(said.send([], 'p').resources, []);
  });

  it('of one first resource are remembered up to a bound, the oldest goes first', () => {
    const said = new SentUnits();
    const first = generated('first');
    const units = Array.from({ length: 25 }, (_, index) => [first, generated(`${index}`)]);
    for (const unit of units) said.send(unit, 'p');
    assert.ok(units.slice(1).every((unit) => said.send(unit, 'p').resources === undefined));
    assert.equal(said.send(units[0] ?? [], 'p').resources?.length, 2);
  });

  it('that are large are not remembered for views that are gone', () => {
    const said = new SentUnits();
    const list = Array.from({ length: 40 }, (_, index) => generated(`r${index}`));
    for (const scope of ['shop/', 'gone/', 'gone/web'])
      said.send([generated(scope), ...list], `outbound:${scope}:0123 vhds 80`);
    assert.equal(said.largeUnits, 3);
    said.forget((place) => scopeOfKey(place) === 'gone/');
    assert.equal(said.largeUnits, 2);
    said.forget((place) => scopeOfKey(place) !== 'shop/');
    assert.equal(said.largeUnits, 1);
  });

  it('that are large are told as changes of what was last said in their place, if that is less', () => {
    const said = new SentUnits();
    const unit = Array.from({ length: 40 }, (_, index) => generated(`${index}`));
    const whole = said.send(unit, 'p');
    assert.deepEqual([whole.resources, whole.base], [unit, undefined]);
    const [changed, added] = [generated('7'), generated('new')];
    const next = [...unit.slice(0, 7), changed, ...unit.slice(8, 39), added];
    const { resources, base, number } = said.send(next, 'p');
    assert.deepEqual(
      { resources, base },
      { resources: [changed, added], base: { number: whole.number, gone: ['39'] } },
    );
    // Another view that comes to the same.
    said.send(unit, 'q');
    assert.deepEqual(said.send(next, 'q'), { number, resources: undefined });
    assert.deepEqual(said.send(unit.slice(0, 39), 'q').base, { number, gone: ['new'] });
    assert.equal(said.send([...next, generated('more')], 'r').base, undefined, 'nothing was said there yet');
    assert.equal(
      said.send(
        next.map(({ name }) => generated(name)),
        'p',
      ).base,
      undefined,
      'most of it is new',
    );
  });
});

describe('heard units', () => {
  it('are recalled by their numbers, all or none', () => {
    const heard = new ReceivedUnits();
    const [one, two] = [[encoded('a')], [encoded('b')]];
    heard.receive(1, one);
    heard.receive(2, two);
    const recalled = heard.recall(naming(2, 1));
    assert.deepEqual([recalled?.get(1) === one, recalled?.get(2) === two], [true, true]);
    assert.equal(heard.recall(naming(1, 3)), undefined);
  });

  it('are recalled when others are told as changes of them', () => {
    const heard = new ReceivedUnits();
    const one = [encoded('a')];
    heard.receive(1, one);
    const basedOn = (number: number) =>
      naming(2).map((answer) => ({
        ...answer,
        units: answer.units.map((unit) => ({ ...unit, resources: [], base: { number, gone: [] } })),
      }));
    assert.equal(heard.recall(basedOn(1))?.get(1), one);
    assert.equal(heard.recall(basedOn(3)), undefined);
  });

  it('are not held: what nobody has is gone, and swept out', async () => {
    const heard = new ReceivedUnits();
    const kept = [encoded('kept')];
    heard.receive(1, kept);
    for (let number = 2; number <= 1024; number++) heard.receive(number, [encoded('gone')]);
    await collectGarbage();
    assert.equal(heard.recall(naming(2)), undefined);
    assert.equal(heard.recall(naming(1))?.get(1), kept);
    heard.receive(1025, kept);
    assert.equal(heard.size, 2);
  });
});
