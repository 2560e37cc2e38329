/** The order of types, and what streams share. */
import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import type { Content } from './testing.ts';
import { DeltaPeer, filled, SotwPeer } from './testing-machine.ts';

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
    assert.ok(peer.machine.complete(content.partsOf));
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
    assert.ok(!peer.machine.complete(content.partsOf));
    peer.ack();
    assert.deepEqual(peer.push(), ['cds -web', 'eds -eds-web']);
    peer.ack();
    assert.ok(peer.machine.complete(content.partsOf));
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
