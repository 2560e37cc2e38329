/** The order of types, and the results that streams share. */
import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import type { Content } from '../testing/content.ts';
import { DeltaPeer, filled, SotwPeer } from '../testing/machine.ts';

let content: Content;

beforeEach(() => {
  content = filled();
});

describe('order of types', () => {
  it('sends clusters first, then endpoints, then listeners and routes once the proxy has the clusters', () => {
    const peer = new DeltaPeer(content);
    peer.ask('cds');
    peer.ask('lds');
    assert.deepEqual(peer.push(), ['cds in-web web']);
    assert.deepEqual(peer.push(), []);
    peer.ack();
    assert.ok(peer.machine.awaiting);
    assert.deepEqual(peer.push(), [], 'listeners wait for the subscription to endpoints');
    peer.ask('eds', { subscribe: ['eds-web'] });
    assert.deepEqual(peer.push(), ['eds eds-web', 'lds http']);
    peer.ask('rds', { subscribe: ['80'] });
    assert.deepEqual(peer.push(), ['rds 80']);
  });

  it('sends listeners in the end to a proxy that never subscribes to endpoints', () => {
    const peer = new DeltaPeer(content);
    peer.ask('cds');
    peer.ask('lds');
    peer.push();
    peer.ack();
    peer.machine.stopAwaiting();
    assert.deepEqual(peer.push(), ['lds http']);
  });

  it('sends the endpoints of a changed cluster again, even if they are the same', () => {
    const peer = DeltaPeer.current(content);
    content.set('cds', 'web', '2', ['eds-web']);
    assert.deepEqual(peer.push(), ['cds web', 'eds eds-web']);
    peer.ack();
    assert.deepEqual(peer.push(), []);
    assert.ok(peer.machine.complete(content.parts));
  });

  it('sends changed endpoints immediately', () => {
    const peer = DeltaPeer.current(content);
    content.set('eds', 'eds-web', '2');
    assert.deepEqual(peer.push(), ['eds eds-web']);
  });

  it('Delta: removes a cluster after the routes that pointed to it were replaced', () => {
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

  it('SotW: keeps the cluster in the first set and leaves it out of the second', () => {
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

  it('sends a removal immediately when nothing else changed', () => {
    const peer = DeltaPeer.current(content);
    content.set('cds', 'in-web', undefined);
    assert.deepEqual(peer.push(), ['cds -in-web']);
  });

  it('removes a listener in the same response that adds another', () => {
    const peer = DeltaPeer.current(content);
    content.set('lds', 'http', undefined);
    content.set('lds', 'tls', '1');
    assert.deepEqual(peer.push(), ['lds tls -http']);
  });

  it('keeps a cluster while the proxy may use an older route to it after rejecting the newer one', () => {
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

describe('results that streams share', () => {
  it('sends the same buffers to all streams in the same state', () => {
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

  it('begins nonces with the version of the snapshot', () => {
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

  it('are all sent to a proxy that subscribes without names, and one by one when they change', () => {
    const peer = new DeltaPeer(content);
    peer.ask('vhds');
    assert.deepEqual(peer.push(), ['vhds 80/a 80/b']);
    peer.ack();
    content.set('vhds', '80/b', '2');
    assert.deepEqual(peer.push(), ['vhds 80/b']);
  });

  it('are removed together with the change of hosts that take over their domains, before clusters', () => {
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

  it('are sent again after routes that are new to the proxy, because it dropped them before', () => {
    const peer = discovering();
    content.setAll('vhds', [['81/c', '1']]);
    content.set('rds', '81', '1', ['81']);
    assert.deepEqual(peer.push(), ['vhds 81/c']);
    peer.ack();
    peer.ask('rds', { subscribe: ['81'] });
    assert.deepEqual(peer.push(), ['vhds -81/c', 'rds 81', 'vhds 81/c']);
    peer.ack();
    // The requests cross on the wire: the first is answered later.
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

  it('of removed routes stay while the proxy subscribes to these: a listener may be draining', () => {
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
    assert.ok(peer.machine.complete(content.parts), 'nothing is outstanding');
    peer.ask('rds', { unsubscribe: ['80'] });
    assert.deepEqual(peer.machine.typesToSend(content.parts), ['vhds']);
    assert.deepEqual(peer.push(), ['vhds -80/a -80/b']);
  });

  it('that no longer exist are removed when their routes exist again while the listener still drains', () => {
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

  it('are sent to a proxy that reconnects with them but without the routes', () => {
    const peer = new DeltaPeer(content);
    peer.ask('rds', { subscribe: ['80'] });
    assert.deepEqual(peer.push(), ['rds 80']);
    peer.ask('vhds', { initial: content.versions('vhds') });
    assert.deepEqual(peer.push(), ['vhds 80/a 80/b']);
    peer.ack();
    assert.deepEqual(peer.push(), []);
  });

  /** A proxy whose routes were replaced, before it subscribes to virtual hosts, if it ever does. */
  function replaced(): DeltaPeer {
    const peer = new DeltaPeer(content);
    peer.ask('rds', { subscribe: ['80'], initial: new Map([['80', 'v:0']]) });
    assert.deepEqual(peer.push(), ['rds 80', 'vhds 80/a 80/b']);
    return peer;
  }

  it('are sent unsolicited with routes that replace others in use', () => {
    const peer = replaced();
    peer.ack();
    content.set('vhds', '80/a', '2');
    assert.deepEqual(peer.push(), ['vhds 80/a']);
  });

  it('that were unsolicited are sent again on the first request, and others that the proxy has are removed', () => {
    const peer = replaced();
    peer.ask('rds', { nonce: peer.last[0]?.message.nonce ?? '' });
    peer.ask('vhds', { initial: new Map([['80/gone', 'v:1']]) });
    assert.deepEqual(peer.push(), ['vhds 80/a 80/b -80/gone']);
    peer.ack();
    assert.ok(peer.machine.complete(content.parts));
  });

  it('that were unsolicited and no longer exist are removed: the request may have crossed them', () => {
    const peer = replaced();
    content.set('vhds', '80/a', undefined);
    peer.ask('vhds');
    peer.ack();
    assert.deepEqual(peer.push(), ['vhds 80/b -80/a']);
    peer.ack();
    assert.ok(peer.machine.complete(content.parts));
  });

  it('that were unsolicited are not waited for when the proxy rejects the routes before them', () => {
    const peer = replaced();
    const [routes] = peer.last;
    peer.ask('rds', { nonce: routes?.message.nonce ?? '', error: 'no good' });
    assert.deepEqual(peer.push(), []);
    assert.ok(peer.machine.complete(content.parts));
    content.set('rds', '80', '2', ['80']);
    assert.deepEqual(peer.push(), ['rds 80', 'vhds 80/a 80/b']);
  });

  it('that were unsolicited are not waited for when the proxy unsubscribes from the routes before them', () => {
    const peer = replaced();
    peer.ask('rds', { unsubscribe: ['80'] });
    const [routes] = peer.last;
    peer.ask('rds', { nonce: routes?.message.nonce ?? '' });
    assert.deepEqual(peer.push(), []);
    assert.ok(peer.machine.complete(content.parts));
  });

  it('are removed before routes that are new to the proxy: its stream may end before they are sent', () => {
    const peer = discovering();
    content.setAll('vhds', [['81/c', '1']]);
    content.set('rds', '81', '1', ['81']);
    peer.push();
    peer.ack();
    peer.ask('rds', { subscribe: ['81'] });
    assert.deepEqual(peer.push(), ['vhds -81/c', 'rds 81', 'vhds 81/c']);
    const [gone, routes] = peer.last;
    assert.equal(
      peer.ask('vhds', { nonce: gone?.message.nonce ?? '' }).kind,
      'none',
      'the response after it is outstanding',
    );
    peer.ask('rds', { nonce: routes?.message.nonce ?? '' });
    // On its next stream it has the routes, and reports the virtual hosts that were not removed.
    const again = new DeltaPeer(content);
    again.ask('rds', { subscribe: ['80', '81'], initial: content.versions('rds') });
    const shown = content.versions('vhds');
    shown.delete('81/c');
    again.ask('vhds', { initial: shown });
    assert.deepEqual(again.push(), ['vhds 81/c']);
  });

  it('that were removed and are quarantined are sent again in the version that the proxy had before', () => {
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

  it('are not removed before routes that replace those a proxy reconnects with', () => {
    const peer = new DeltaPeer(content);
    peer.ask('rds', { subscribe: ['80'], initial: new Map([['80', 'v:0']]) });
    peer.ask('vhds', { initial: content.versions('vhds') });
    assert.deepEqual(peer.push(), ['rds 80', 'vhds 80/a 80/b']);
  });

  it('are removed from a proxy that reconnects and has not reported any yet', () => {
    const peer = new DeltaPeer(content);
    peer.ask('cds', { initial: content.versions('cds') });
    peer.ask('rds', { subscribe: ['80'] });
    assert.deepEqual(peer.push(), ['vhds -80/a -80/b', 'rds 80']);
    peer.ask('vhds', { initial: content.versions('vhds') });
    assert.deepEqual(peer.push(), ['vhds 80/a 80/b']);
  });

  it('are removed before routes that the proxy subscribes to again', () => {
    const peer = discovering();
    peer.ask('rds', { subscribe: ['80'] });
    assert.deepEqual(peer.push(), ['vhds -80/a -80/b', 'rds 80', 'vhds 80/a 80/b']);
  });

  it('that are rejected are quarantined alone, and delay the removal of clusters', () => {
    const peer = discovering();
    content.set('vhds', '80/a', 'bad');
    content.set('vhds', '80/b', '2');
    content.set('cds', 'in-web', undefined);
    assert.deepEqual(peer.push(), ['vhds 80/a 80/b']);
    const answer = peer.nack('\nname: "80/a"\n: Proto constraint validation failed');
    assert.deepEqual(answer?.quarantined, ['80/a']);
    assert.deepEqual(peer.push(), ['vhds 80/b']);
    peer.ack();
    assert.deepEqual(peer.push(), [], 'the older version may point to the cluster');
    content.set('vhds', '80/a', '3');
    assert.deepEqual(peer.push(), ['vhds 80/a']);
    peer.ack();
    assert.deepEqual(peer.push(), ['cds -in-web']);
  });
});
