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

/** An answer that refers to these units by number and sends no resources. */
function naming(...numbers: readonly number[]): JobAnswer[] {
  const units = numbers.map((number) => {
    return { type: 'cds', unit: `${number}`, number, reads: NO_READS, resources: undefined } as const;
  });
  return [
    { viewKey: 'v', gone: false, units, milliseconds: {}, complete: ['cds'], findings: [], failures: [], lists: {} },
  ];
}

describe('units that a worker sends', () => {
  it('are sent once, even when the same resources are in another list', () => {
    const sent = new SentUnits();
    const [a, b] = [generated('a'), generated('b')];
    const first = sent.send([a, b], 'p');
    assert.deepEqual(first.resources, [a, b]);
    assert.deepEqual(sent.send([a, b], 'p'), { number: first.number, resources: undefined });
  });

  it('are different when a resource is another object, is missing or has another index', () => {
    const sent = new SentUnits();
    const [a, b, like] = [generated('a'), generated('b'), generated('a')];
    const units = [[a, b], [a], [a, like], [b, a], [like, b], [b], [a, b, b]];
    const answers = units.map((unit) => sent.send(unit, 'p'));
    assert.deepEqual(
      answers.map(({ resources }) => resources),
      units,
    );
    assert.equal(new Set(answers.map(({ number }) => number)).size, units.length);
  });

  it('are sent each time when they are empty', () => {
    const sent = new SentUnits();
    sent.send([], 'p');
    assert.deepEqual(sent.send([], 'p').resources, []);
  });

  it('are kept up to a limit for one first resource, and the oldest is dropped first', () => {
    const sent = new SentUnits();
    const first = generated('first');
    const units = Array.from({ length: 25 }, (_, index) => [first, generated(`${index}`)]);
    for (const unit of units) sent.send(unit, 'p');
    assert.ok(units.slice(1).every((unit) => sent.send(unit, 'p').resources === undefined));
    assert.equal(sent.send(units[0] ?? [], 'p').resources?.length, 2);
  });

  it('are not kept for views that are gone when they are large', () => {
    const sent = new SentUnits();
    const list = Array.from({ length: 40 }, (_, index) => generated(`r${index}`));
    for (const scope of ['shop/', 'gone/', 'gone/web'])
      sent.send([generated(scope), ...list], `outbound:${scope}:0123 vhds 80`);
    assert.equal(sent.largeUnits, 3);
    sent.forget((place) => scopeOfKey(place) === 'gone/');
    assert.equal(sent.largeUnits, 2);
    sent.forget((place) => scopeOfKey(place) !== 'shop/');
    assert.equal(sent.largeUnits, 1);
  });

  it('are sent as a difference from the unit sent last for the same path when they are large and that is less', () => {
    const sent = new SentUnits();
    const unit = Array.from({ length: 40 }, (_, index) => generated(`${index}`));
    const whole = sent.send(unit, 'p');
    assert.deepEqual([whole.resources, whole.base], [unit, undefined]);
    const [changed, added] = [generated('7'), generated('new')];
    const next = [...unit.slice(0, 7), changed, ...unit.slice(8, 39), added];
    const { resources, base, number } = sent.send(next, 'p');
    assert.deepEqual(
      { resources, base },
      { resources: [changed, added], base: { number: whole.number, gone: ['39'] } },
    );
    // Another view that comes to the same.
    sent.send(unit, 'q');
    assert.deepEqual(sent.send(next, 'q'), { number, resources: undefined });
    assert.deepEqual(sent.send(unit.slice(0, 39), 'q').base, { number, gone: ['new'] });
    assert.equal(sent.send([...next, generated('more')], 'r').base, undefined, 'nothing was sent there yet');
    assert.equal(
      sent.send(
        next.map(({ name }) => generated(name)),
        'p',
      ).base,
      undefined,
      'most of it is new',
    );
  });
});

describe('large units of views with nearly the same content', () => {
  const unit = Array.from({ length: 40 }, (_, index) => generated(`${index}`));

  it('are sent as a difference from that of another view', () => {
    const sent = new SentUnits();
    const { number } = sent.send(unit, 'p vhds 80', 'vhds 80');
    const [own, another] = [generated('0'), generated('1')];
    const difference = sent.send([own, ...unit.slice(1)], 'q vhds 80', 'vhds 80');
    assert.deepEqual([difference.resources, difference.base], [[own], { number, gone: [] }]);
    const next = sent.send([own, another, ...unit.slice(2)], 'q vhds 80', 'vhds 80');
    assert.deepEqual([next.resources, next.base?.number], [[another], difference.number], 'its own comes first');
    assert.equal(sent.send([generated('7'), ...unit.slice(1)], 'q vhds 81', 'vhds 81').base, undefined, 'another kind');
  });

  it('are not sent as a difference from one of a view that is gone, or that is small', () => {
    const sent = new SentUnits();
    sent.send(unit, 'outbound:gone/:0 vhds 80', 'vhds 80');
    assert.equal(sent.kinds, 1);
    sent.forget((path) => scopeOfKey(path) === 'gone/');
    assert.equal(sent.kinds, 0);
    const changed = [generated('0'), ...unit.slice(1)];
    assert.equal(sent.send(changed, 'outbound:shop/:0 vhds 80', 'vhds 80').base, undefined);
    sent.send(unit.slice(0, 20), 'p cds a', 'cds a');
    assert.equal(sent.send([generated('0'), ...unit.slice(1, 20)], 'q cds a', 'cds a').base, undefined);
  });

  it('are sent whole when the unit of the other view was dropped for others', () => {
    const sent = new SentUnits();
    sent.send(unit, 'p vhds 80', 'vhds 80');
    const dropped = Array.from({ length: 1024 }, (_, index) => [generated(`n${index}`), ...unit]);
    for (const [index, each] of dropped.entries()) sent.send(each, `v${index} lds 80`, `lds ${index}`);
    assert.equal(sent.largeUnits, 1024);
    const { base } = sent.send([generated('0'), ...unit.slice(1)], 'q vhds 80', 'vhds 80');
    assert.equal(base, undefined);
  });
});

describe('units that the main thread receives', () => {
  it('are found by their numbers, all or none', () => {
    const received = new ReceivedUnits();
    const [one, two] = [[encoded('a')], [encoded('b')]];
    received.receive(1, one);
    received.receive(2, two);
    const recalled = received.recall(naming(2, 1));
    assert.deepEqual([recalled?.get(1) === one, recalled?.get(2) === two], [true, true]);
    assert.equal(received.recall(naming(1, 3)), undefined);
  });

  it('are found when others are sent as a difference from them', () => {
    const received = new ReceivedUnits();
    const one = [encoded('a')];
    received.receive(1, one);
    const basedOn = (number: number) =>
      naming(2).map((answer) => ({
        ...answer,
        units: answer.units.map((unit) => ({ ...unit, resources: [], base: { number, gone: [] } })),
      }));
    assert.equal(received.recall(basedOn(1))?.get(1), one);
    assert.equal(received.recall(basedOn(3)), undefined);
  });

  it('are weak references: unused ones are freed and swept out', async () => {
    const received = new ReceivedUnits();
    const kept = [encoded('kept')];
    received.receive(1, kept);
    for (let number = 2; number <= 1024; number++) received.receive(number, [encoded('gone')]);
    await collectGarbage();
    assert.equal(received.recall(naming(2)), undefined);
    assert.equal(received.recall(naming(1))?.get(1), kept);
    received.receive(1025, kept);
    assert.equal(received.size, 2);
  });
});
