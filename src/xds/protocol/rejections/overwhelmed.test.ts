/** Proxies that reject nearly everything: what they are sent, counted, and how they recover. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { XdsType } from '../../../core/xds-types.ts';
import { Content } from '../../testing/content.ts';
import { DeltaPeer, SotwPeer } from '../../testing/machine.ts';

const COUNT = 2000;
const NAMES = Array.from({ length: COUNT }, (_, index) => `c${String(index).padStart(4, '0')}`);

type Peer = DeltaPeer | SotwPeer;

function full(type: XdsType): Content {
  const content = new Content();
  content.setAll(
    type,
    NAMES.map((name) => [name, '1']),
  );
  return content;
}

interface Sent {
  responses: number;
  resources: number;
}

/** Pushes and has the proxy reject what it is sent, until nothing more is sent. */
function rejectAll(peer: Peer, error = 'no good'): Sent {
  const sent = { responses: 0, resources: 0 };
  for (let stories = peer.push(); stories.length > 0; stories = peer.push()) {
    sent.responses += stories.length;
    for (const story of stories) sent.resources += story.split(' ').length - 1;
    assert.ok(sent.responses < 1000, 'never ends');
    peer.nack(error);
  }
  return sent;
}

/** A proxy that has rejected everything of a type. */
function overwhelmed(type: XdsType, variant: 'delta' | 'sotw'): { content: Content; peer: Peer; sent: Sent } {
  const content = full(type);
  const peer = variant === 'delta' ? new DeltaPeer(content) : new SotwPeer(content);
  if (peer instanceof DeltaPeer) peer.ask(type, type === 'rds' ? { subscribe: NAMES } : {});
  else peer.ask(type, type === 'rds' ? { names: NAMES } : {});
  return { content, peer, sent: rejectAll(peer) };
}

const ROWS = [
  ['Delta, clusters', 'cds', 'delta'],
  ['Delta, routes', 'rds', 'delta'],
  ['state of the world, clusters', 'cds', 'sotw'],
  ['state of the world, routes', 'rds', 'sotw'],
] as const;

describe('a proxy that rejects everything', () => {
  for (const [title, type, variant] of ROWS) {
    it(`is sent it about twice at first, then each change once: ${title}`, () => {
      const { content, peer, sent } = overwhelmed(type, variant);
      assert.ok(sent.responses <= 70, `${sent.responses} responses`);
      // A full set of the state of the world variant is sent once more, in place of an empty one.
      assert.ok(sent.resources < 3.2 * COUNT, `${sent.resources} resources`);
      for (let revision = 2; revision < 6; revision++) {
        content.setAll(type, [
          ['c0001', String(revision)],
          ['c0002', String(revision)],
        ]);
        assert.equal(rejectAll(peer).responses, 1);
      }
      // Another type is not concerned.
      content.set('nds', 'names', '1');
      peer.ask('nds');
      assert.deepEqual(peer.push(), ['nds names']);
      peer.ack();
      const status = peer.machine.status(content.parts).get(type);
      assert.ok(status !== undefined && !status.current && status.quarantined.size <= 256);
      const counts = { cds: 0, eds: 0, sds: 0, ecds: 0, lds: 0, rds: 0, vhds: 0, nds: 0 };
      peer.machine.countQuarantined(counts);
      assert.ok(counts[type] >= COUNT - 100, `${counts[type]} counted`);
    });

    it(`is sent all of it once more when it accepts something, and is then as any other: ${title}`, () => {
      const { content, peer } = overwhelmed(type, variant);
      content.set(type, 'c0001', '2');
      assert.equal(peer.push().length, 1);
      peer.ack();
      const [again = ''] = peer.push();
      assert.equal(again.split(' ').length - 1, COUNT);
      peer.ack();
      assert.deepEqual(peer.push(), []);
      const status = peer.machine.status(content.parts).get(type);
      assert.deepEqual([status?.current, status?.quarantined.size], [true, 0]);
      content.set(type, 'c0002', 'bad');
      peer.push();
      peer.nack('no good');
      assert.deepEqual([...(peer.machine.status(content.parts).get(type)?.quarantined.keys() ?? [])], ['c0002']);
    });
  }

  it('is not sent everything over and over when it accepts some changes and rejects others', () => {
    const { content, peer } = overwhelmed('cds', 'delta');
    let whole = 0;
    for (let revision = 2; revision < 200; revision++) {
      content.set('cds', 'c0001', String(revision));
      for (let stories = peer.push(); stories.length > 0; stories = peer.push()) {
        const isWhole = (stories[0]?.split(' ').length ?? 0) > COUNT / 2;
        if (isWhole) whole++;
        if (isWhole) peer.nack('no good');
        else peer.ack();
      }
    }
    assert.deepEqual(whole, 3, 'after 1, 8 and 64 acknowledgements');
  });

  it('keeps what it had, and clusters are not removed while it may use older routes', () => {
    const content = full('rds');
    content.set('cds', 'web', '1');
    const peer = DeltaPeer.current(content);
    content.setAll(
      'rds',
      NAMES.map((name) => [name, '2']),
    );
    rejectAll(peer);
    content.set('cds', 'web', undefined);
    assert.deepEqual(peer.push(), []);
    content.set('rds', 'c0003', undefined);
    assert.deepEqual(peer.push(), []);
    content.setAll(
      'rds',
      NAMES.slice(4).map((name) => [name, '3']),
    );
    assert.equal(peer.push().length, 1);
    peer.ack();
    const [again = ''] = peer.push();
    assert.match(again, /^rds c0000 /);
    peer.ack();
    assert.deepEqual(peer.push(), ['cds -web']);
    peer.ack();
    assert.deepEqual(peer.push(), ['rds -c0003']);
  });

  it('gets names to which it subscribes during the search', () => {
    const content = full('eds');
    content.set('eds', 'late', '1');
    const peer = new DeltaPeer(content);
    peer.ask('eds', { subscribe: NAMES });
    peer.push();
    peer.nack('no good');
    peer.push();
    peer.ask('eds', { subscribe: ['late'] });
    peer.nack('no good');
    const stories: string[] = [];
    for (let sent = peer.push(); sent.length > 0; sent = peer.push()) {
      stories.push(...sent);
      if (sent.join().includes('late')) peer.ack();
      else peer.nack('no good');
      assert.ok(stories.length < 200);
    }
    assert.ok(stories.some((story) => story.includes('late')));
  });
});
