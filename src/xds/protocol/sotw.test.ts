/** The state-of-the-world protocol, message by message. */
import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { encodeResponse } from '../server/encode-response.ts';
import { Content, parseSotw } from '../testing/content.ts';
import { filled, rejectTwice, SotwPeer } from '../testing/machine.ts';

let content: Content;

beforeEach(() => {
  content = filled();
});

describe('SotW', () => {
  it('recognises a proxy that is up to date after a restart, whatever came in which order', () => {
    const peer = new SotwPeer(content);
    peer.ask('cds');
    peer.ask('eds', { names: ['eds-web'] });
    assert.deepEqual(peer.push(), ['cds in-web web', 'eds eds-web']);
    peer.ack();
    content.set('eds', 'eds-web', '2');
    content.set('cds', 'api', '1');
    peer.push();
    peer.ack();
    // A new process builds the same content another way.
    content = new Content();
    content.set('eds', 'eds-web', '2');
    content.set('cds', 'api', '1');
    content.set('cds', 'in-web', '1');
    content.set('cds', 'web', '1', ['eds-web']);
    const again = new SotwPeer(content);
    again.ask('cds', { version: peer.versions.get('cds') ?? '' });
    again.ask('eds', { names: ['eds-web'], version: peer.versions.get('eds') ?? '' });
    assert.deepEqual(again.push(), []);
    content.set('eds', 'eds-web', '3');
    assert.deepEqual(again.push(), ['eds eds-web']);
  });

  it('answers all of it when the version is another', () => {
    const peer = new SotwPeer(content);
    peer.ask('cds', { version: 'other' });
    assert.deepEqual(peer.push(), ['cds in-web web']);
  });

  it('a proxy of an earlier release, whose clusters call their endpoints otherwise: no error, and nothing waits in the end', () => {
    const peer = new SotwPeer(content);
    // All four at once, as an Envoy does that comes back.
    peer.ask('cds', { version: 'earlier' });
    peer.ask('eds', { names: ['outbound|80||web'], version: 'earlier' });
    peer.ask('lds', { version: 'earlier' });
    peer.ask('rds', { names: ['80'], version: 'earlier' });
    // Nothing has that name any more, which takes nothing away: the proxy keeps what it has until it has the new
    // clusters.
    assert.deepEqual(peer.push(), ['cds in-web web', 'eds']);
    peer.ack();
    // The new cluster warms beside the old one.
    peer.ask('eds', { names: ['eds-web', 'outbound|80||web'], nonce: peer.last[1]?.message.nonce ?? '' });
    const first = peer.push();
    assert.equal(first[0], 'eds eds-web');
    peer.ack();
    const rest = [...first.slice(1), ...peer.push()];
    peer.ack();
    assert.deepEqual(rest, ['lds http', 'rds 80']);
    peer.ask('eds', { names: ['eds-web'] });
    assert.deepEqual(peer.push(), []);
    assert.ok(peer.machine.complete(content.parts));
    assert.equal(peer.machine.awaiting, false);
    content.set('eds', 'eds-web', '2');
    assert.deepEqual(peer.push(), ['eds eds-web']);
  });

  it('sends full sets of clusters and only the change of endpoints', () => {
    content.set('eds', 'eds-api', '1');
    const peer = new SotwPeer(content);
    peer.ask('cds');
    peer.ask('eds', { names: ['eds-api', 'eds-web'] });
    peer.push();
    peer.ack();
    content.set('eds', 'eds-api', '2');
    content.set('cds', 'in-web', '2');
    assert.deepEqual(peer.push(), ['cds in-web web', 'eds eds-api']);
  });

  it('answers names that are added, and names that were dropped and come back', () => {
    content.set('eds', 'eds-api', '1');
    const peer = new SotwPeer(content);
    peer.ask('eds', { names: ['eds-web'] });
    peer.push();
    peer.ack();
    const nonce = peer.last[0]?.message.nonce ?? '';
    peer.ask('eds', { names: ['eds-api'], nonce });
    assert.deepEqual(peer.push(), ['eds eds-api']);
    peer.ack();
    peer.ask('eds', { names: ['eds-api', 'eds-web'], nonce: peer.last[0]?.message.nonce ?? '' });
    assert.deepEqual(peer.push(), ['eds eds-web']);
  });

  it('ignores all of a request with a stale nonce', () => {
    const peer = new SotwPeer(content);
    peer.ask('eds', { names: ['eds-web'] });
    peer.push();
    assert.equal(peer.ask('eds', { names: [], nonce: 'old' }).kind, 'stale');
    content.set('eds', 'eds-web', '2');
    peer.ask('eds', { names: ['eds-web'], nonce: peer.last[0]?.message.nonce ?? '' });
    assert.deepEqual(peer.push(), ['eds eds-web']);
  });

  it('an empty list means everything only until names were given', () => {
    const peer = new SotwPeer(content);
    peer.ask('cds', { names: ['web'] });
    assert.deepEqual(peer.push(), ['cds web']);
    peer.ack();
    peer.ask('cds', { names: [], nonce: peer.last[0]?.message.nonce ?? '' });
    assert.deepEqual(peer.push(), ['cds'], 'a new version for the smaller set');
    peer.ack();
    content.set('cds', 'web', '2');
    assert.deepEqual(peer.push(), []);
  });

  it('does not answer the dropping of a name that the last set was without, though it exists again', () => {
    const peer = new SotwPeer(content);
    peer.ask('lds', { names: ['http'] });
    peer.push();
    peer.ack();
    content.set('lds', 'http', undefined);
    assert.deepEqual(peer.push(), ['lds']);
    content.set('lds', 'http', '1');
    const [gone] = peer.last;
    assert.ok(gone);
    peer.versions.set('lds', gone.message.version);
    peer.ask('lds', { names: [], nonce: gone.message.nonce });
    assert.deepEqual(peer.push(), []);
    assert.ok(peer.machine.complete(content.parts));
  });

  it('recognises a proxy that dropped names as up to date', () => {
    content.set('eds', 'eds-api', '1');
    const peer = new SotwPeer(content);
    peer.ask('eds', { names: ['eds-web', 'eds-api'] });
    peer.push();
    peer.ack();
    peer.ask('eds', { names: ['eds-web'], nonce: peer.last[0]?.message.nonce ?? '' });
    peer.push();
    peer.ack();
    const again = new SotwPeer(content);
    again.ask('eds', { names: ['eds-web'], version: peer.versions.get('eds') ?? '' });
    assert.deepEqual(again.push(), []);
  });

  it('a name that was dropped after its resource had gone is not in the version that the proxy comes back with', () => {
    content.set('eds', 'eds-api', '1');
    const peer = new SotwPeer(content);
    peer.ask('eds', { names: ['eds-api', 'eds-web'] });
    peer.push();
    peer.ack();
    const both = peer.versions.get('eds');
    content.set('eds', 'eds-api', undefined);
    assert.deepEqual(peer.push(), [], 'nothing can be taken away');
    peer.ask('eds', { names: ['eds-web'] });
    assert.deepEqual(peer.push(), ['eds']);
    peer.ack();
    const version = peer.versions.get('eds') ?? '';
    assert.notEqual(version, both);
    const again = new SotwPeer(content);
    again.ask('eds', { names: ['eds-web'], version });
    assert.deepEqual(again.push(), []);
    // The cluster comes again, and the stream ends before its endpoints are sent.
    content.set('eds', 'eds-api', '1');
    const later = new SotwPeer(content);
    later.ask('eds', { names: ['eds-api', 'eds-web'], version });
    assert.deepEqual(later.push(), ['eds eds-api eds-web']);
  });

  it('sends the endpoints of a cluster that came on this stream, whatever version the proxy shows', () => {
    const peer = new SotwPeer(content);
    peer.ask('eds', { names: ['eds-web'] });
    peer.push();
    peer.ack();
    const again = new SotwPeer(content);
    again.ask('cds');
    assert.deepEqual(again.push(), ['cds in-web web']);
    again.ask('eds', { names: ['eds-web'], version: peer.versions.get('eds') ?? '' });
    assert.deepEqual(again.push(), ['eds eds-web']);
  });

  it('keeps the last good version of a rejected cluster in the set', () => {
    const peer = new SotwPeer(content);
    peer.ask('cds');
    peer.push();
    peer.ack();
    content.setAll('cds', [
      ['web', '2'],
      ['api', '1'],
    ]);
    peer.push();
    peer.nack('Error adding/updating cluster(s) web: no good');
    peer.push();
    const [message] = peer.last;
    assert.ok(message);
    const parsed = parseSotw(Buffer.concat(encodeResponse(message.message)).subarray(5));
    assert.deepEqual(Object.fromEntries(parsed.resources.map(({ name, text }) => [name, text])), {
      api: '1',
      'in-web': '1',
      web: '1',
    });
  });

  it('takes away what came in a rejected response, also when its next version was rejected by name', () => {
    const peer = new SotwPeer(content);
    peer.ask('lds');
    peer.push();
    peer.ack();
    rejectTwice(content, peer, 'lds a b http', 'lds b http');
    content.set('lds', 'b', undefined);
    assert.deepEqual(peer.push(), ['lds http']);
    peer.ack();
    assert.deepEqual(peer.push(), []);
  });

  it('sends what a rejected response took away when it comes back: the proxy may have let it go', () => {
    const peer = new SotwPeer(content);
    peer.ask('lds');
    peer.push();
    peer.ack();
    content.setAll('lds', [
      ['a', '1'],
      ['http', undefined],
    ]);
    assert.deepEqual(peer.push(), ['lds a']);
    content.set('lds', 'http', '1');
    peer.nack('Error adding/updating listener(s) a: no good');
    assert.deepEqual(peer.push(), ['lds http']);
    peer.ack();
    assert.deepEqual(peer.push(), []);
  });
});
