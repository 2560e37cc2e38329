/** Subscriptions with very many names: they are answered in portions, and nothing is lost. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { XdsType } from '../../../core/xds-types.ts';
import { Content } from '../../testing/content.ts';
import { DeltaPeer, SotwPeer } from '../../testing/machine.ts';
import { MAX_SUBSCRIBED_NAMES } from '../interest.ts';
import { PORTION } from './portions.ts';

/** Not a multiple of a portion. */
const MANY = 3 * PORTION + 17;

function names(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}-${index}`);
}

/** Pushes and acknowledges until nothing more is sent; the names of each response, of missing ones with a minus. */
function answered(peer: DeltaPeer | SotwPeer): string[][] {
  const responses: string[][] = [];
  for (let stories = peer.push(); stories.length > 0; stories = peer.push()) {
    for (const story of stories) responses.push(story.split(' ').slice(1));
    assert.ok(responses.length < 100, 'never ends');
    peer.ack();
  }
  return responses;
}

function filled(type: XdsType, all: readonly string[]): Content {
  const content = new Content();
  content.setAll(
    type,
    all.map((name) => [name, '1']),
  );
  return content;
}

describe('a subscription with very many names', () => {
  it('gets those that do not exist in portions, after all that exist', () => {
    const content = filled('eds', ['a', 'b']);
    const peer = new DeltaPeer(content);
    peer.ask('eds', { subscribe: ['b', ...names('none', MANY), 'a'] });
    const [first = [], ...others] = answered(peer);
    assert.deepEqual(first.slice(0, 2), ['a', 'b']);
    assert.ok([first, ...others].every(({ length }) => length <= PORTION + 2));
    assert.deepEqual(new Set([first.slice(2), ...others].flat()), new Set(names('-none', MANY)));
    assert.equal([first, ...others].flat().length, MANY + 2, 'each once');
    assert.equal(peer.machine.status(content.parts).get('eds')?.current, true);
  });

  it('is told again of those in a response that the proxy rejects', () => {
    const content = filled('eds', ['a']);
    const peer = new DeltaPeer(content);
    peer.ask('eds', { subscribe: ['a', 'none'] });
    assert.deepEqual(peer.push(), ['eds a -none']);
    peer.nack('no good');
    assert.deepEqual(answered(peer), [['-none']]);
  });

  for (const variant of ['delta', 'sotw'] as const)
    it(`is sent names that it adds in portions: ${variant}`, () => {
      const added = names('some', MANY);
      const content = filled('eds', ['a', ...added]);
      const peer = variant === 'delta' ? new DeltaPeer(content) : new SotwPeer(content);
      if (peer instanceof DeltaPeer) peer.ask('eds', { subscribe: ['a'] });
      else peer.ask('eds', { names: ['a'] });
      assert.deepEqual(answered(peer), [['a']]);
      const more = [...added, ...names('none', MANY)];
      if (peer instanceof DeltaPeer) peer.ask('eds', { subscribe: more });
      else peer.ask('eds', { names: ['a', ...more], nonce: peer.last[0]?.message.nonce ?? '' });
      // A change meanwhile is not lost.
      assert.equal(peer.push().length, 1);
      content.set('eds', `some-${MANY - 1}`, '2');
      peer.ack();
      const responses = answered(peer);
      assert.ok(responses.every(({ length }) => length <= PORTION + 1));
      const told = [...new Set(responses.flat())];
      assert.ok(responses.flat().length <= told.length + 1);
      // State of the world has empty endpoints for those that do not exist.
      const absent = told.filter((name) => name.startsWith(variant === 'delta' ? '-none' : 'none'));
      assert.deepEqual([absent.length, told.length - absent.length], [MANY, MANY - PORTION]);
      assert.equal(peer.machine.status(content.parts).get('eds')?.current, true);
    });

  it('is not told of names that it has dropped meanwhile', () => {
    const content = filled('eds', ['a']);
    const peer = new DeltaPeer(content);
    peer.ask('eds', { subscribe: ['a'] });
    answered(peer);
    peer.ask('eds', { subscribe: names('none', MANY) });
    peer.push();
    peer.ask('eds', { unsubscribe: names('none', MANY) });
    peer.ack();
    assert.deepEqual(answered(peer), []);
  });

  it('may not be dropped and made again without end while the proxy reads nothing', () => {
    const peer = new DeltaPeer(filled('eds', ['a']));
    peer.ask('eds', { subscribe: ['a'] });
    answered(peer);
    const turns = Math.floor(MAX_SUBSCRIBED_NAMES / MANY);
    const round = (index: number): void => {
      peer.ask('eds', { subscribe: names(`none-${index}`, MANY) });
      peer.ask('eds', { unsubscribe: names(`none-${index}`, MANY) });
    };
    for (let index = 0; index < turns; index++) round(index);
    assert.throws(() => round(turns), /more than 200000 names of a type wait for a response/);
  });

  it('gets what it has in another version after a reconnect', () => {
    const all = names('some', MANY);
    const content = filled('eds', all);
    const peer = new DeltaPeer(content);
    peer.ask('eds', { subscribe: all, initial: new Map(all.map((name) => [name, 'v:0'])) });
    const told = answered(peer).flat();
    assert.deepEqual([told.length, new Set(told).size], [MANY, MANY]);
    assert.equal(peer.machine.status(content.parts).get('eds')?.current, true);
  });

  it('gets those that no longer exist after a reconnect', () => {
    const content = filled('eds', ['a']);
    const peer = new DeltaPeer(content);
    const gone = names('gone', MANY);
    const initial = new Map(['a', ...gone.slice(5)].map((name) => [name, 'v:1']));
    peer.ask('eds', { subscribe: ['a', ...gone], initial });
    const told = answered(peer).flat();
    assert.deepEqual([told.length, new Set(told).size], [MANY, MANY]);
  });
});
