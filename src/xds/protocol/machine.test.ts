/** The order of types, and what streams share. */
import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import type { Content } from '../testing/content.ts';
import { DeltaPeer, filled, SotwPeer } from '../testing/machine.ts';

let content: Content;

beforeEach(() => {
  content = filled();
});

describe('order of types', () => {
  it('first connection: clusters, then endpoints, then listeners and routes once the clusters are there', () => {
    const peer = new DeltaPeer(content);
    peer.ask('cds');
    peer.ask('lds');
    assert.deepEqual(peer.push(), ['cds in-web web']);
    assert.deepEqual(peer.push(), []);
    peer.ack();
    assert.ok(peer.machine.awaiting);
    assert.deepEqual(peer.push(), [], 'listeners wait for the endpoints to be asked for');
    peer.ask('eds', { subscribe: ['eds-web'] });
    assert.deepEqual(peer.push(), ['eds eds-web', 'lds http']);
    peer.ask('rds', { subscribe: ['80'] });
    assert.deepEqual(peer.push(), ['rds 80']);
  });

  it('listeners do not wait for ever for a proxy that never asks for endpoints', () => {
    const peer = new DeltaPeer(content);
    peer.ask('cds');
    peer.ask('lds');
    peer.push();
    peer.ack();
    peer.machine.stopAwaiting();
    assert.deepEqual(peer.push(), ['lds http']);
  });

  it('a changed cluster gets its endpoints again, though they are the same', () => {
    const peer = DeltaPeer.current(content);
    content.set('cds', 'web', '2', ['eds-web']);
    assert.deepEqual(peer.push(), ['cds web', 'eds eds-web']);
    peer.ack();
    assert.deepEqual(peer.push(), []);
    assert.ok(peer.machine.complete(content.parts));
  });

  it('endpoints alone go at once', () => {
    const peer = DeltaPeer.current(content);
    content.set('eds', 'eds-web', '2');
    assert.deepEqual(peer.push(), ['eds eds-web']);
  });

  it('Delta: a cluster leaves after the routes that pointed to it were replaced', () => {
    const peer = DeltaPeer.current(content);
    content.set('cds', 'api', '1');
    content.set('cds', 'web', undefined);
    content.set('eds', 'eds-web', undefined);
    content.set('rds', '80', '2');
    assert.deepEqual(peer.push(), ['cds api']);
    peer.ack();
    assert.deepEqual(peer.push(), ['rds 80']);
    assert.ok(!peer.machine.complete(content.parts));
    peer.ack();
    assert.deepEqual(peer.push(), ['cds -web', 'eds -eds-web']);
    peer.ack();
    assert.ok(peer.machine.complete(content.parts));
  });

  it('SotW: the first set keeps the cluster, a second one drops it', () => {
    const peer = new SotwPeer(content);
    peer.ask('cds');
    peer.ask('rds', { names: ['80'] });
    peer.push();
    peer.ack();
    peer.machine.stopAwaiting();
    peer.push();
    peer.ack();
    content.set('cds', 'api', '1');
    content.set('cds', 'web', undefined);
    content.set('rds', '80', '2');
    assert.deepEqual(peer.push(), ['cds api in-web web']);
    peer.ack();
    assert.deepEqual(peer.push(), ['rds 80']);
    peer.ack();
    assert.deepEqual(peer.push(), ['cds api in-web']);
  });

  it('a removal alone goes at once', () => {
    const peer = DeltaPeer.current(content);
    content.set('cds', 'in-web', undefined);
    assert.deepEqual(peer.push(), ['cds -in-web']);
  });

  it('a listener leaves with the listener message', () => {
    const peer = DeltaPeer.current(content);
    content.set('lds', 'http', undefined);
    content.set('lds', 'tls', '1');
    assert.deepEqual(peer.push(), ['lds tls -http']);
  });

  it('a cluster stays while a rejected route may still point to it', () => {
    const peer = DeltaPeer.current(content);
    content.set('cds', 'web', undefined);
    content.set('rds', '80', '2');
    assert.deepEqual(peer.push(), ['rds 80']);
    peer.nack('no good');
    assert.deepEqual(peer.push(), []);
    content.set('rds', '80', '3');
    assert.deepEqual(peer.push(), ['rds 80']);
    peer.ack();
    assert.deepEqual(peer.push(), ['cds -web']);
  });
});

describe('what streams share', () => {
  it('sends the same buffers to all streams at the same point', () => {
    const bodies = [DeltaPeer.current(content), DeltaPeer.current(content)].map((peer) => {
      content.setAll('eds', [['eds-web', `${content.version}`]]);
      return peer;
    });
    const sent = bodies.map((peer) => {
      peer.push();
      return peer.last.map(({ message }) => message.body);
    });
    assert.equal(sent[0]?.[0]?.[0], sent[1]?.[0]?.[0]);
    const first = [new SotwPeer(content), new SotwPeer(content)].map((peer) => {
      peer.ask('cds');
      peer.push();
      return peer.last[0]?.message.body;
    });
    assert.equal(first[0]?.[0], first[1]?.[0]);
    assert.ok(first[0]?.[0]);
  });

  it('numbers nonces with the snapshot they belong to', () => {
    const peer = new DeltaPeer(content);
    peer.ask('cds');
    peer.push();
    assert.equal(peer.last[0]?.message.nonce, `${content.version}-1`);
  });
});

describe('virtual hosts', () => {
  beforeEach(() => {
    content.set('rds', '80', '1', ['80']);
    content.set('vhds', '80/a', '1');
    content.set('vhds', '80/b', '1');
  });

  /** A proxy with routes and their virtual hosts. */
  function discovering(): DeltaPeer {
    const peer = DeltaPeer.current(content);
    assert.deepEqual(peer.push(), []);
    assert.ok(peer.machine.complete(content.parts));
    return peer;
  }

  it('all come to a proxy that asks for them by no name, and one by one when they change', () => {
    const peer = new DeltaPeer(content);
    peer.ask('vhds');
    assert.deepEqual(peer.push(), ['vhds 80/a 80/b']);
    peer.ack();
    content.set('vhds', '80/b', '2');
    assert.deepEqual(peer.push(), ['vhds 80/b']);
  });

  it('go together with what takes over their domains, before the clusters that they point to', () => {
    const peer = discovering();
    content.set('cds', 'in-web', undefined);
    content.set('vhds', '80/a', undefined);
    content.set('vhds', '80/b', '2');
    assert.deepEqual(peer.push(), ['vhds 80/b -80/a']);
    assert.deepEqual(peer.push(), []);
    peer.ack();
    assert.deepEqual(peer.push(), ['cds -in-web']);
  });

  it('wait for the clusters that they point to', () => {
    const peer = discovering();
    content.set('cds', 'new', '1');
    content.set('vhds', '80/a', '2');
    assert.deepEqual(peer.push(), ['cds new']);
    peer.ack();
    assert.deepEqual(peer.push(), ['vhds 80/a']);
  });

  it('are sent again behind routes that are new to the proxy: it let them fall before', () => {
    const peer = discovering();
    content.setAll('vhds', [['81/c', '1']]);
    content.set('rds', '81', '1', ['81']);
    assert.deepEqual(peer.push(), ['vhds 81/c']);
    peer.ack();
    peer.ask('rds', { subscribe: ['81'] });
    assert.deepEqual(peer.push(), ['vhds -81/c', 'rds 81', 'vhds 81/c']);
    peer.ack();
    // Crossed on the wire, the answer to the first comes later.
    content.set('vhds', '80/a', '2');
    assert.deepEqual(peer.push(), ['vhds 80/a']);
    const hosts = peer.last;
    peer.ask('rds', { unsubscribe: ['81'] });
    peer.ask('rds', { subscribe: ['81'] });
    assert.deepEqual(peer.push(), ['vhds -81/c', 'rds 81']);
    peer.ack();
    peer.last = hosts;
    peer.ack();
    assert.deepEqual(peer.push(), ['vhds 81/c']);
  });

  it('of routes that go stay while the proxy asks for these: a listener may be draining', () => {
    const peer = discovering();
    content.set('lds', 'http', undefined);
    content.set('rds', '80', undefined);
    content.set('vhds', '80/a', undefined);
    content.set('vhds', '80/b', undefined);
    assert.deepEqual(peer.push(), ['lds -http']);
    peer.ack();
    assert.deepEqual(peer.push(), ['rds -80']);
    peer.ack();
    assert.deepEqual(peer.push(), []);
    assert.ok(peer.machine.complete(content.parts), 'nothing is on the way');
    peer.ask('rds', { unsubscribe: ['80'] });
    assert.deepEqual(peer.machine.typesToSend(content.parts), ['vhds']);
    assert.deepEqual(peer.push(), ['vhds -80/a -80/b']);
  });

  it('that went are taken away when their routes come back while the listener still drains', () => {
    const peer = discovering();
    content.set('rds', '80', undefined);
    content.set('vhds', '80/a', undefined);
    content.set('vhds', '80/b', undefined);
    peer.push();
    peer.ack();
    content.set('rds', '80', '1', ['80']);
    content.set('vhds', '80/b', '1');
    assert.deepEqual(peer.push(), ['vhds -80/b', 'rds 80', 'vhds 80/b -80/a']);
  });

  it('come to a proxy that comes back with them and without the routes, as these do', () => {
    const peer = new DeltaPeer(content);
    peer.ask('rds', { subscribe: ['80'] });
    assert.deepEqual(peer.push(), ['rds 80']);
    peer.ask('vhds', { initial: content.versions('vhds') });
    assert.deepEqual(peer.push(), ['vhds 80/a 80/b']);
    peer.ack();
    assert.deepEqual(peer.push(), []);
  });

  /** Before it asks for virtual hosts: which it may never do, as far as anyone can tell. */
  function replaced(): DeltaPeer {
    const peer = new DeltaPeer(content);
    peer.ask('rds', { subscribe: ['80'], initial: new Map([['80', 'v:0']]) });
    assert.deepEqual(peer.push(), ['rds 80', 'vhds 80/a 80/b']);
    return peer;
  }

  it('come unasked along with routes that replace others in use', () => {
    const peer = replaced();
    peer.ack();
    content.set('vhds', '80/a', '2');
    assert.deepEqual(peer.push(), ['vhds 80/a']);
  });

  it('that came unasked come again when they are asked for, and those that it had besides go', () => {
    const peer = replaced();
    peer.ask('rds', { nonce: peer.last[0]?.message.nonce ?? '' });
    peer.ask('vhds', { initial: new Map([['80/gone', 'v:1']]) });
    assert.deepEqual(peer.push(), ['vhds 80/a 80/b -80/gone']);
    peer.ack();
    assert.ok(peer.machine.complete(content.parts));
  });

  it('that came unasked and are gone when they are asked for are taken away: that request may have come before them', () => {
    const peer = replaced();
    content.set('vhds', '80/a', undefined);
    peer.ask('vhds');
    peer.ack();
    assert.deepEqual(peer.push(), ['vhds 80/b -80/a']);
    peer.ack();
    assert.ok(peer.machine.complete(content.parts));
  });

  it('that came unasked are not waited for when the routes before them were rejected: they were ignored', () => {
    const peer = replaced();
    const [routes] = peer.last;
    peer.ask('rds', { nonce: routes?.message.nonce ?? '', error: 'no good' });
    assert.deepEqual(peer.push(), []);
    assert.ok(peer.machine.complete(content.parts));
    content.set('rds', '80', '2', ['80']);
    assert.deepEqual(peer.push(), ['rds 80', 'vhds 80/a 80/b']);
  });

  it('that came unasked are not waited for when the routes before them are not wanted', () => {
    const peer = replaced();
    peer.ask('rds', { unsubscribe: ['80'] });
    const [routes] = peer.last;
    peer.ask('rds', { nonce: routes?.message.nonce ?? '' });
    assert.deepEqual(peer.push(), []);
    assert.ok(peer.machine.complete(content.parts));
  });

  it('are taken away before routes come that the proxy had not: its stream may end before they follow', () => {
    const peer = discovering();
    content.setAll('vhds', [['81/c', '1']]);
    content.set('rds', '81', '1', ['81']);
    peer.push();
    peer.ack();
    peer.ask('rds', { subscribe: ['81'] });
    assert.deepEqual(peer.push(), ['vhds -81/c', 'rds 81', 'vhds 81/c']);
    const [gone, routes] = peer.last;
    assert.equal(peer.ask('vhds', { nonce: gone?.message.nonce ?? '' }).kind, 'none', 'the other is waited for');
    peer.ask('rds', { nonce: routes?.message.nonce ?? '' });
    // Its new stream: it has the routes, and shows the virtual hosts that were not taken from it.
    const again = new DeltaPeer(content);
    again.ask('rds', { subscribe: ['80', '81'], initial: content.versions('rds') });
    const shown = content.versions('vhds');
    shown.delete('81/c');
    again.ask('vhds', { initial: shown });
    assert.deepEqual(again.push(), ['vhds 81/c']);
  });

  it('that were taken away and are rejected come again in the version that the proxy had before', () => {
    const peer = discovering();
    content.set('vhds', '80/a', 'bad');
    peer.push();
    peer.nack('no good');
    peer.ask('rds', { subscribe: ['80'] });
    assert.deepEqual(peer.push(), ['vhds -80/a -80/b', 'rds 80', 'vhds 80/b']);
    peer.ack();
    content.set('vhds', '80/a', '1');
    assert.deepEqual(peer.push(), ['vhds 80/a']);
  });

  it('are not taken away before new routes that replace those that it comes back with', () => {
    const peer = new DeltaPeer(content);
    peer.ask('rds', { subscribe: ['80'], initial: new Map([['80', 'v:0']]) });
    peer.ask('vhds', { initial: content.versions('vhds') });
    assert.deepEqual(peer.push(), ['rds 80', 'vhds 80/a 80/b']);
  });

  it('are taken away from a proxy that comes back before it has told of any', () => {
    const peer = new DeltaPeer(content);
    peer.ask('cds', { initial: content.versions('cds') });
    peer.ask('rds', { subscribe: ['80'] });
    assert.deepEqual(peer.push(), ['vhds -80/a -80/b', 'rds 80']);
    peer.ask('vhds', { initial: content.versions('vhds') });
    assert.deepEqual(peer.push(), ['vhds 80/a 80/b']);
  });

  it('are taken away before routes that the proxy asks for again, having dropped them', () => {
    const peer = discovering();
    peer.ask('rds', { subscribe: ['80'] });
    assert.deepEqual(peer.push(), ['vhds -80/a -80/b', 'rds 80', 'vhds 80/a 80/b']);
  });

  it('that are rejected are kept back alone, and hold back what clusters would leave', () => {
    const peer = discovering();
    content.set('vhds', '80/a', 'bad');
    content.set('vhds', '80/b', '2');
    content.set('cds', 'in-web', undefined);
    assert.deepEqual(peer.push(), ['vhds 80/a 80/b']);
    const answer = peer.nack('\nname: "80/a"\n: Proto constraint validation failed');
    assert.deepEqual(answer?.quarantined, ['80/a']);
    assert.deepEqual(peer.push(), ['vhds 80/b']);
    peer.ack();
    assert.deepEqual(peer.push(), [], 'the old one may point to the cluster');
    content.set('vhds', '80/a', '3');
    assert.deepEqual(peer.push(), ['vhds 80/a']);
    peer.ack();
    assert.deepEqual(peer.push(), ['cds -in-web']);
  });
});
