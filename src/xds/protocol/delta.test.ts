/** The Delta variant, message by message. */
import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import type { TypeStatus } from '../../push/types.ts';
import { Content } from '../testing/content.ts';
import { DeltaPeer, filled, rejectTwice } from '../testing/machine.ts';

let content: Content;

beforeEach(() => {
  content = filled();
});

describe('Delta', () => {
  it('sends only what differs to a proxy that reconnects', () => {
    content.set('vhds', '80/web', '1');
    content.set('nds', 'names', '1');
    content.set('ecds', 'limits', '1');
    const current = DeltaPeer.current(content);
    assert.deepEqual(current.push(), []);
    for (const [type, status] of current.machine.status(content.parts)) assert.ok(status.resumedUpToDate, type);
    const peer = new DeltaPeer(content);
    peer.ask('cds', {
      initial: new Map([
        ['web', 'v:0'],
        ['gone', 'v:1'],
        ['in-web', 'v:1'],
      ]),
    });
    assert.deepEqual(peer.push(), ['cds web']);
    peer.ack();
    assert.deepEqual(peer.push(), [], 'a removal waits for resources that may point to the cluster');
    peer.machine.stopAwaiting();
    assert.deepEqual(peer.push(), ['cds -gone']);
  });

  it('answers only names where requests for everything are not allowed', () => {
    const peer = new DeltaPeer(content);
    peer.machine.limitToNames();
    peer.ask('lds');
    peer.ask('cds', { subscribe: ['*'] });
    assert.deepEqual(peer.push(), []);
    peer.ask('cds', { subscribe: ['*', 'web'] });
    assert.deepEqual(peer.push(), ['cds web']);
  });

  it('answers the first wildcard request once, with an empty response, when there are no resources', () => {
    content = new Content();
    const peer = new DeltaPeer(content);
    peer.ask('cds');
    assert.deepEqual(peer.push(), ['cds']);
    peer.ack();
    assert.deepEqual(peer.push(), []);
  });

  it('reports once that a name does not exist, and sends it when it does', () => {
    const peer = new DeltaPeer(content);
    peer.ask('eds', { subscribe: ['eds-web', 'eds-new'] });
    assert.deepEqual(peer.push(), ['eds eds-web -eds-new']);
    peer.ack();
    assert.deepEqual(peer.push(), []);
    content.set('eds', 'eds-new', '1');
    assert.deepEqual(peer.push(), ['eds eds-new']);
  });

  it('sends a name again that is subscribed to again, and none that was unsubscribed', () => {
    const peer = DeltaPeer.current(content);
    peer.ask('eds', { subscribe: ['eds-web'] });
    assert.deepEqual(peer.push(), ['eds eds-web']);
    peer.ack();
    peer.ask('eds', { unsubscribe: ['eds-web'] });
    content.set('eds', 'eds-web', '2');
    assert.deepEqual(peer.push(), []);
    peer.ask('eds', { subscribe: ['eds-web'] });
    assert.deepEqual(peer.push(), ['eds eds-web']);
  });

  it('sends an unsubscribed name again that the wildcard still covers', () => {
    const peer = new DeltaPeer(content);
    peer.ask('cds', { subscribe: ['*', 'web', 'none'] });
    assert.deepEqual(peer.push(), ['cds in-web web -none']);
    peer.ack();
    peer.ask('cds', { unsubscribe: ['web', 'none'] });
    assert.deepEqual(peer.push(), ['cds web -none']);
  });

  it('follows a subscription from the wildcard to names and back', () => {
    const peer = new DeltaPeer(content);
    peer.ask('cds');
    peer.push();
    peer.ack();
    peer.machine.stopAwaiting();
    peer.ask('cds', { subscribe: ['web'], unsubscribe: ['*'] });
    assert.deepEqual(peer.push(), ['cds web']);
    peer.ack();
    content.set('cds', 'in-web', '2');
    assert.deepEqual(peer.push(), []);
    peer.ask('cds', { subscribe: ['*'] });
    assert.deepEqual(peer.push(), ['cds in-web']);
  });

  it('ignores a stale nonce, but not the subscription in the same request', () => {
    const peer = new DeltaPeer(content);
    peer.ask('eds', { subscribe: ['eds-web'] });
    peer.push();
    assert.equal(peer.ask('eds', { nonce: 'old', subscribe: ['eds-new'] }).kind, 'stale');
    assert.deepEqual(peer.push(), [], 'the response is still outstanding');
    peer.ack();
    assert.deepEqual(peer.push(), ['eds -eds-new']);
  });

  it('merges changes while a response is outstanding', () => {
    const peer = DeltaPeer.current(content);
    content.set('eds', 'eds-web', '2');
    peer.push();
    const sent = peer.last;
    content.set('eds', 'eds-web', '3');
    assert.deepEqual(peer.push(), []);
    content.set('eds', 'eds-web', '4');
    assert.deepEqual(peer.push(), []);
    peer.last = sent;
    peer.ack();
    assert.deepEqual(peer.push(), ['eds eds-web']);
    peer.ack();
    assert.deepEqual(peer.push(), []);
  });

  it('sends only what differs to a proxy that moves to other views', () => {
    const peer = DeltaPeer.current(content);
    content.moveViews();
    content.set('lds', 'http', '2');
    assert.deepEqual(peer.push(), ['lds http']);
  });

  it('quarantines what the proxy names, sends the rest, and tries a new version', () => {
    const peer = DeltaPeer.current(content);
    content.setAll('lds', [
      ['a', '1'],
      ['b', '1'],
    ]);
    const held = (): TypeStatus => {
      const status = peer.machine.status(content.parts).get('lds');
      assert.ok(status !== undefined);
      return status;
    };
    const before = held().versionComplete;
    assert.deepEqual(peer.push(), ['lds a b']);
    assert.deepEqual(peer.nack('Error adding/updating listener(s) b: cannot bind\n')?.quarantined, ['b']);
    assert.deepEqual(peer.push(), ['lds a']);
    peer.ack();
    // The rest is acknowledged, but the proxy does not have all of this version.
    assert.deepEqual([held().versionAcked > before, held().versionComplete, held().current], [true, before, false]);
    assert.ok(peer.machine.complete(content.parts));
    assert.deepEqual(peer.push(), []);
    content.set('lds', 'b', '2');
    assert.deepEqual(peer.push(), ['lds b']);
    peer.ack();
    assert.equal(held().quarantined.size, 0);
    assert.deepEqual([held().versionComplete, held().current], [held().versionSent, true]);
  });

  it('removes a resource of a rejected response, even if the proxy then rejects its next version by name', () => {
    const peer = DeltaPeer.current(content);
    rejectTwice(content, peer, 'lds a b', 'lds b');
    content.set('lds', 'b', undefined);
    assert.deepEqual(peer.push(), ['lds -b']);
    peer.ack();
    assert.deepEqual(peer.push(), []);
  });

  it('sends a resource again that a rejected response removed: the proxy may have removed it', () => {
    const peer = DeltaPeer.current(content);
    content.setAll('lds', [
      ['a', '1'],
      ['http', undefined],
    ]);
    assert.deepEqual(peer.push(), ['lds a -http']);
    content.set('lds', 'http', '1');
    peer.nack('Error adding/updating listener(s) a: no good');
    assert.deepEqual(peer.push(), ['lds http']);
    peer.ack();
    assert.deepEqual(peer.push(), []);
  });
});
