/** The state of the world variant, message by message. */
import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import type { XdsType } from '../../core/xds-types.ts';
import { encodeResponse } from '../server/encode-response.ts';
import { Content, parseSotw } from '../testing/content.ts';
import { filled, rejectTwice, SotwPeer } from '../testing/machine.ts';

let content: Content;

beforeEach(() => {
  content = filled();
});

describe('SotW', () => {
  it('recognises a proxy that is up to date after a restart, whatever the order of changes before', () => {
    const peer = new SotwPeer(content);
    peer.ask('cds');
    peer.ask('eds', { names: ['eds-web'] });
    assert.deepEqual(peer.push(), ['cds in-web web', 'eds eds-web']);
    peer.ack();
    content.set('eds', 'eds-web', '2');
    content.set('cds', 'api', '1');
    peer.push();
    peer.ack();
    // A new process builds the same content in another way.
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

  it('answers only names where requests for everything are not allowed', () => {
    const peer = new SotwPeer(content);
    peer.machine.limitToNames();
    peer.ask('lds');
    peer.ask('cds', { names: ['*'] });
    assert.deepEqual(peer.push(), []);
    peer.ask('cds', { names: ['*', 'web'] });
    assert.deepEqual(peer.push(), ['cds web']);
  });

  it('sends everything when the version differs', () => {
    const peer = new SotwPeer(content);
    peer.ask('cds', { version: 'other' });
    assert.deepEqual(peer.push(), ['cds in-web web']);
  });

  it('brings a proxy of an earlier release, whose endpoints have other names, up to date', () => {
    const peer = new SotwPeer(content);
    // All four at once, as a reconnecting Envoy does.
    peer.ask('cds', { version: 'earlier' });
    peer.ask('eds', { names: ['outbound|80||web'], version: 'earlier' });
    peer.ask('lds', { version: 'earlier' });
    peer.ask('rds', { names: ['80'], version: 'earlier' });
    // No endpoints have the old name now. That removes nothing: the proxy keeps its endpoints until it has the new
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

  it('sends full sets of clusters, but only changed endpoints', () => {
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

  it('answers added names, and names that are subscribed to again', () => {
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

  /** The texts of the resources in the last response of the type. */
  const texts = (peer: SotwPeer, type: XdsType): readonly (readonly [string, string])[] => {
    const { message } = peer.last.find((each) => each.type === type) ?? assert.fail(`no ${type}`);
    const { resources } = parseSotw(Buffer.concat(encodeResponse(message)).subarray(5));
    return resources.map(({ name, text }) => [name, text] as const);
  };

  it('answers endpoints of a cluster that has gone meanwhile: Envoy acknowledges no clusters before', () => {
    content.set('cds', 'api', '1', ['eds-api']);
    content.set('eds', 'eds-api', '1');
    const peer = new SotwPeer(content);
    peer.ask('cds');
    assert.deepEqual(peer.push(), ['cds api in-web web']);
    const [clusters] = peer.last;
    content.set('cds', 'api', undefined);
    content.set('eds', 'eds-api', undefined);
    peer.ask('eds', { names: ['eds-api', 'eds-web'] });
    assert.deepEqual(peer.push(), ['eds eds-api eds-web']);
    assert.deepEqual(texts(peer, 'eds'), [
      ['eds-web', '1'],
      ['eds-api', ''],
    ]);
    peer.ack();
    assert.deepEqual(peer.push(), []);
    peer.ask('cds', { nonce: clusters?.message.nonce ?? '' });
    assert.deepEqual(peer.push(), ['cds in-web web']);
    peer.ask('eds', { names: ['eds-web'] });
    peer.ack();
    assert.ok(peer.machine.complete(content.parts));
  });

  it('answers endpoints of a cluster that was added and has gone meanwhile', () => {
    const peer = new SotwPeer(content);
    peer.ask('cds');
    peer.ask('eds', { names: ['eds-web'] });
    peer.push();
    peer.ack();
    const nonce = peer.last.find(({ type }) => type === 'eds')?.message.nonce ?? '';
    content.set('cds', 'api', '1', ['eds-api']);
    content.set('eds', 'eds-api', '1');
    assert.deepEqual(peer.push(), ['cds api in-web web']);
    content.set('cds', 'api', undefined);
    content.set('eds', 'eds-api', undefined);
    peer.ask('eds', { names: ['eds-api', 'eds-web'], nonce });
    assert.deepEqual(peer.push(), ['eds eds-api']);
    assert.deepEqual(texts(peer, 'eds'), [['eds-api', '']]);
    // Those that come back are sent.
    peer.ack();
    content.set('eds', 'eds-api', '2');
    assert.deepEqual(peer.push(), ['eds eds-api']);
    assert.deepEqual(texts(peer, 'eds'), [['eds-api', '2']]);
  });

  it('sends the last endpoints of a changed cluster that has gone before they were sent', () => {
    const peer = new SotwPeer(content);
    peer.ask('cds');
    peer.ask('eds', { names: ['eds-web'] });
    peer.push();
    peer.ack();
    // Unanswered endpoints delay those that the changed cluster waits for.
    content.set('eds', 'eds-web', '2');
    assert.deepEqual(peer.push(), ['eds eds-web']);
    const [endpoints] = peer.last;
    content.set('cds', 'web', '2', ['eds-web']);
    assert.deepEqual(peer.push(), ['cds in-web web']);
    content.set('cds', 'web', undefined);
    content.set('eds', 'eds-web', undefined);
    peer.ask('eds', { nonce: endpoints?.message.nonce ?? '' });
    assert.deepEqual(peer.push(), ['eds eds-web']);
    assert.deepEqual(texts(peer, 'eds'), [['eds-web', '2']]);
  });

  it('ignores a request with a stale nonce', () => {
    const peer = new SotwPeer(content);
    peer.ask('eds', { names: ['eds-web'] });
    peer.push();
    assert.equal(peer.ask('eds', { names: [], nonce: 'old' }).kind, 'stale');
    content.set('eds', 'eds-web', '2');
    peer.ask('eds', { names: ['eds-web'], nonce: peer.last[0]?.message.nonce ?? '' });
    assert.deepEqual(peer.push(), ['eds eds-web']);
  });

  it('takes an empty list for a wildcard only before names were subscribed to', () => {
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

  it('does not answer when a name is unsubscribed that the last set did not have, even if it exists again', () => {
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

  it('recognises a proxy that unsubscribed from names as up to date', () => {
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

  it('excludes a name from the version that was unsubscribed after its resource was removed', () => {
    content.set('eds', 'eds-api', '1');
    const peer = new SotwPeer(content);
    peer.ask('eds', { names: ['eds-api', 'eds-web'] });
    peer.push();
    peer.ack();
    const both = peer.versions.get('eds');
    content.set('eds', 'eds-api', undefined);
    assert.deepEqual(peer.push(), [], 'nothing can be removed');
    peer.ask('eds', { names: ['eds-web'] });
    assert.deepEqual(peer.push(), ['eds']);
    peer.ack();
    const version = peer.versions.get('eds') ?? '';
    assert.notEqual(version, both);
    const again = new SotwPeer(content);
    again.ask('eds', { names: ['eds-web'], version });
    assert.deepEqual(again.push(), []);
    // The cluster exists again, and the stream ends before its endpoints are sent.
    content.set('eds', 'eds-api', '1');
    const later = new SotwPeer(content);
    later.ask('eds', { names: ['eds-api', 'eds-web'], version });
    assert.deepEqual(later.push(), ['eds eds-api eds-web']);
  });

  it('sends the endpoints of a cluster that this stream sent, whatever version the proxy reports', () => {
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

  it('removes a resource of a rejected response, even if the proxy then rejects its next version by name', () => {
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

  it('sends a resource again that a rejected response removed: the proxy may have removed it', () => {
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
