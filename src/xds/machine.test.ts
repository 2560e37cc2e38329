import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import type { XdsType } from '../generate/types.ts';
import { type DeltaRequest, decodeDeltaRequest, decodeSotwRequest, encodeResponse, type SotwRequest } from './codec.ts';
import { DELTA } from './delta.ts';
import { AdsMachine, type Outgoing } from './machine.ts';
import { SOTW } from './sotw.ts';
import type { Answer } from './subscription.ts';
import {
  Content,
  type DeltaFields,
  encodeDeltaRequest,
  encodeSotwRequest,
  type ParsedResponse,
  parseDelta,
  parseSotw,
  type SotwFields,
} from './testing.ts';
import { TYPE_URL_OF } from './type-urls.ts';

let content: Content;

/** What a test says about a response: `cds web api -gone`. */
function story(type: XdsType, response: ParsedResponse): string {
  return [
    type,
    ...response.resources.map(({ name }) => name).sort(),
    ...response.removed.map((name) => `-${name}`),
  ].join(' ');
}

/** A proxy that says what the test makes it say. */
class DeltaPeer {
  readonly machine = new AdsMachine<DeltaRequest>(DELTA);
  last: readonly Outgoing[] = [];

  ask(type: XdsType, fields: Omit<DeltaFields, 'typeUrl'> = {}): Answer {
    const bytes = encodeDeltaRequest({ typeUrl: TYPE_URL_OF[type], ...fields });
    return this.machine.receive(type, decodeDeltaRequest(bytes), content.partsOf, 0);
  }
  push(): string[] {
    const { messages } = this.machine.push(content.partsOf, content.version);
    if (messages.length > 0) this.last = messages;
    return messages.map(({ type, message }) =>
      story(type, parseDelta(Buffer.concat(encodeResponse(message)).subarray(5))),
    );
  }
  /** Acknowledges what the last push sent. */
  ack(): void {
    for (const { type, message } of this.last) this.ask(type, { nonce: message.nonce });
  }
  nack(error: string): Answer | undefined {
    let answer: Answer | undefined;
    for (const { type, message } of this.last) answer = this.ask(type, { nonce: message.nonce, error });
    return answer;
  }
  /** A proxy with everything that Content has. */
  static current(): DeltaPeer {
    const peer = new DeltaPeer();
    peer.ask('cds', { initial: content.versions('cds') });
    peer.ask('eds', { subscribe: [...content.versions('eds').keys()], initial: content.versions('eds') });
    peer.ask('lds', { initial: content.versions('lds') });
    peer.ask('rds', { subscribe: [...content.versions('rds').keys()], initial: content.versions('rds') });
    peer.machine.stopAwaiting();
    return peer;
  }
}

class SotwPeer {
  readonly machine = new AdsMachine<SotwRequest>(SOTW);
  readonly versions = new Map<XdsType, string>();
  last: readonly Outgoing[] = [];
  readonly #names = new Map<XdsType, readonly string[]>();

  ask(type: XdsType, fields: Omit<SotwFields, 'typeUrl'> = {}): Answer {
    const names = fields.names ?? this.#names.get(type) ?? [];
    this.#names.set(type, names);
    const bytes = encodeSotwRequest({
      typeUrl: TYPE_URL_OF[type],
      version: this.versions.get(type) ?? '',
      ...fields,
      names,
    });
    return this.machine.receive(type, decodeSotwRequest(bytes), content.partsOf, 0);
  }
  push(): string[] {
    const { messages } = this.machine.push(content.partsOf, content.version);
    if (messages.length > 0) this.last = messages;
    return messages.map(({ type, message }) =>
      story(type, parseSotw(Buffer.concat(encodeResponse(message)).subarray(5))),
    );
  }
  ack(): void {
    for (const { type, message } of this.last) {
      this.versions.set(type, message.version);
      this.ask(type, { nonce: message.nonce });
    }
  }
  nack(error: string): void {
    for (const { type, message } of this.last) this.ask(type, { nonce: message.nonce, error });
  }
}

/** `a` and `b` come, `a` is no good but `b` is taken; then a new `b` is no good. The proxy keeps the first. */
function rejectTwice(peer: DeltaPeer | SotwPeer, first: string, second: string): void {
  content.setAll('lds', [
    ['a', '1'],
    ['b', '1'],
  ]);
  assert.deepEqual(peer.push(), [first]);
  peer.nack('Error adding/updating listener(s) a: no good');
  content.set('lds', 'b', '2');
  assert.deepEqual(peer.push(), [second]);
  peer.nack('Error adding/updating listener(s) b: no good');
  assert.deepEqual(peer.push(), []);
}

function fill(): void {
  content.set('cds', 'web', '1', ['eds-web']);
  content.set('cds', 'in-web', '1');
  content.set('eds', 'eds-web', '1');
  content.set('lds', 'http', '1', ['80']);
  content.set('rds', '80', '1');
}

beforeEach(() => {
  content = new Content();
  fill();
});

describe('order of types', () => {
  it('first connection: clusters, then endpoints, then listeners and routes once the clusters are there', () => {
    const peer = new DeltaPeer();
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
    const peer = new DeltaPeer();
    peer.ask('cds');
    peer.ask('lds');
    peer.push();
    peer.ack();
    peer.machine.stopAwaiting();
    assert.deepEqual(peer.push(), ['lds http']);
  });

  it('a changed cluster gets its endpoints again, though they are the same', () => {
    const peer = DeltaPeer.current();
    content.set('cds', 'web', '2', ['eds-web']);
    assert.deepEqual(peer.push(), ['cds web', 'eds eds-web']);
    peer.ack();
    assert.deepEqual(peer.push(), []);
    assert.ok(peer.machine.complete(content.partsOf));
  });

  it('endpoints alone go at once', () => {
    const peer = DeltaPeer.current();
    content.set('eds', 'eds-web', '2');
    assert.deepEqual(peer.push(), ['eds eds-web']);
  });

  it('Delta: a cluster leaves after the routes that pointed to it were replaced', () => {
    const peer = DeltaPeer.current();
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
    const peer = new SotwPeer();
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
    const peer = DeltaPeer.current();
    content.set('cds', 'in-web', undefined);
    assert.deepEqual(peer.push(), ['cds -in-web']);
  });

  it('a listener leaves with the listener message', () => {
    const peer = DeltaPeer.current();
    content.set('lds', 'http', undefined);
    content.set('lds', 'tls', '1');
    assert.deepEqual(peer.push(), ['lds tls -http']);
  });

  it('a cluster stays while a rejected route may still point to it', () => {
    const peer = DeltaPeer.current();
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

describe('Delta', () => {
  it('sends nothing to a proxy that reconnects with everything, and answers what differs', () => {
    const current = DeltaPeer.current();
    assert.deepEqual(current.push(), []);
    for (const [type, status] of current.machine.status()) assert.ok(status.cameCurrent, type);
    const peer = new DeltaPeer();
    peer.ask('cds', {
      initial: new Map([
        ['web', 'v:0'],
        ['gone', 'v:1'],
        ['in-web', 'v:1'],
      ]),
    });
    assert.deepEqual(peer.push(), ['cds web']);
    peer.ack();
    assert.deepEqual(peer.push(), [], 'what is gone waits for what may point to it');
    peer.machine.stopAwaiting();
    assert.deepEqual(peer.push(), ['cds -gone']);
  });

  it('answers the first wildcard request of a proxy for which there is nothing, once', () => {
    content = new Content();
    const peer = new DeltaPeer();
    peer.ask('cds');
    assert.deepEqual(peer.push(), ['cds']);
    peer.ack();
    assert.deepEqual(peer.push(), []);
  });

  it('says once that a name does not exist, and sends it when it does', () => {
    const peer = new DeltaPeer();
    peer.ask('eds', { subscribe: ['eds-web', 'eds-new'] });
    assert.deepEqual(peer.push(), ['eds eds-web -eds-new']);
    peer.ack();
    assert.deepEqual(peer.push(), []);
    content.set('eds', 'eds-new', '1');
    assert.deepEqual(peer.push(), ['eds eds-new']);
  });

  it('sends again what is subscribed again, and nothing of what was unsubscribed', () => {
    const peer = DeltaPeer.current();
    peer.ask('eds', { subscribe: ['eds-web'] });
    assert.deepEqual(peer.push(), ['eds eds-web']);
    peer.ack();
    peer.ask('eds', { unsubscribe: ['eds-web'] });
    content.set('eds', 'eds-web', '2');
    assert.deepEqual(peer.push(), []);
    peer.ask('eds', { subscribe: ['eds-web'] });
    assert.deepEqual(peer.push(), ['eds eds-web']);
  });

  it('answers an unsubscribed name that the wildcard still covers', () => {
    const peer = new DeltaPeer();
    peer.ask('cds', { subscribe: ['*', 'web', 'none'] });
    assert.deepEqual(peer.push(), ['cds in-web web -none']);
    peer.ack();
    peer.ask('cds', { unsubscribe: ['web', 'none'] });
    assert.deepEqual(peer.push(), ['cds web -none']);
  });

  it('narrows from the wildcard to names and widens again', () => {
    const peer = new DeltaPeer();
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

  it('ignores stale nonces but keeps what they say about the subscription', () => {
    const peer = new DeltaPeer();
    peer.ask('eds', { subscribe: ['eds-web'] });
    peer.push();
    assert.equal(peer.ask('eds', { nonce: 'old', subscribe: ['eds-new'] }).kind, 'stale');
    assert.deepEqual(peer.push(), [], 'the response is still outstanding');
    peer.ack();
    assert.deepEqual(peer.push(), ['eds -eds-new']);
  });

  it('merges what changes while a response is outstanding', () => {
    const peer = DeltaPeer.current();
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

  it('a proxy that moves to other views gets only what differs', () => {
    const peer = DeltaPeer.current();
    content.moveViews();
    content.set('lds', 'http', '2');
    assert.deepEqual(peer.push(), ['lds http']);
  });

  it('quarantines what the proxy names, serves the rest, tries a new version', () => {
    const peer = DeltaPeer.current();
    content.setAll('lds', [
      ['a', '1'],
      ['b', '1'],
    ]);
    assert.deepEqual(peer.push(), ['lds a b']);
    assert.deepEqual(peer.nack('Error adding/updating listener(s) b: cannot bind\n')?.quarantined, ['b']);
    assert.deepEqual(peer.push(), ['lds a']);
    peer.ack();
    assert.ok(peer.machine.complete(content.partsOf));
    assert.deepEqual(peer.push(), []);
    content.set('lds', 'b', '2');
    assert.deepEqual(peer.push(), ['lds b']);
    peer.ack();
    assert.equal(peer.machine.status().get('lds')?.quarantined.size, 0);
  });

  it('takes away what came in a rejected response, also when its next version was rejected by name', () => {
    const peer = DeltaPeer.current();
    rejectTwice(peer, 'lds a b', 'lds b');
    content.set('lds', 'b', undefined);
    assert.deepEqual(peer.push(), ['lds -b']);
    peer.ack();
    assert.deepEqual(peer.push(), []);
  });

  it('sends what a rejected response took away when it comes back: the proxy may have let it go', () => {
    const peer = DeltaPeer.current();
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

describe('SotW', () => {
  it('recognises a proxy that is up to date after a restart, whatever came in which order', () => {
    const peer = new SotwPeer();
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
    const again = new SotwPeer();
    again.ask('cds', { version: peer.versions.get('cds') ?? '' });
    again.ask('eds', { names: ['eds-web'], version: peer.versions.get('eds') ?? '' });
    assert.deepEqual(again.push(), []);
    content.set('eds', 'eds-web', '3');
    assert.deepEqual(again.push(), ['eds eds-web']);
  });

  it('answers all of it when the version is another', () => {
    const peer = new SotwPeer();
    peer.ask('cds', { version: 'other' });
    assert.deepEqual(peer.push(), ['cds in-web web']);
  });

  it('sends full sets of clusters and only the change of endpoints', () => {
    content.set('eds', 'eds-api', '1');
    const peer = new SotwPeer();
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
    const peer = new SotwPeer();
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
    const peer = new SotwPeer();
    peer.ask('eds', { names: ['eds-web'] });
    peer.push();
    assert.equal(peer.ask('eds', { names: [], nonce: 'old' }).kind, 'stale');
    content.set('eds', 'eds-web', '2');
    peer.ask('eds', { names: ['eds-web'], nonce: peer.last[0]?.message.nonce ?? '' });
    assert.deepEqual(peer.push(), ['eds eds-web']);
  });

  it('an empty list means everything only until names were given', () => {
    const peer = new SotwPeer();
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
    const peer = new SotwPeer();
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
    assert.ok(peer.machine.complete(content.partsOf));
  });

  it('recognises a proxy that dropped names as up to date', () => {
    content.set('eds', 'eds-api', '1');
    const peer = new SotwPeer();
    peer.ask('eds', { names: ['eds-web', 'eds-api'] });
    peer.push();
    peer.ack();
    peer.ask('eds', { names: ['eds-web'], nonce: peer.last[0]?.message.nonce ?? '' });
    peer.push();
    peer.ack();
    const again = new SotwPeer();
    again.ask('eds', { names: ['eds-web'], version: peer.versions.get('eds') ?? '' });
    assert.deepEqual(again.push(), []);
  });

  it('sends the endpoints of a cluster that came on this stream, whatever version the proxy shows', () => {
    const peer = new SotwPeer();
    peer.ask('eds', { names: ['eds-web'] });
    peer.push();
    peer.ack();
    const again = new SotwPeer();
    again.ask('cds');
    assert.deepEqual(again.push(), ['cds in-web web']);
    again.ask('eds', { names: ['eds-web'], version: peer.versions.get('eds') ?? '' });
    assert.deepEqual(again.push(), ['eds eds-web']);
  });

  it('keeps the last good version of a rejected cluster in the set', () => {
    const peer = new SotwPeer();
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
    const peer = new SotwPeer();
    peer.ask('lds');
    peer.push();
    peer.ack();
    rejectTwice(peer, 'lds a b http', 'lds b http');
    content.set('lds', 'b', undefined);
    assert.deepEqual(peer.push(), ['lds http']);
    peer.ack();
    assert.deepEqual(peer.push(), []);
  });

  it('sends what a rejected response took away when it comes back: the proxy may have let it go', () => {
    const peer = new SotwPeer();
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

describe('what streams share', () => {
  it('sends the same buffers to all streams at the same point', () => {
    const bodies = [DeltaPeer.current(), DeltaPeer.current()].map((peer) => {
      content.setAll('eds', [['eds-web', `${content.version}`]]);
      return peer;
    });
    const sent = bodies.map((peer) => {
      peer.push();
      return peer.last.map(({ message }) => message.body);
    });
    assert.equal(sent[0]?.[0]?.[0], sent[1]?.[0]?.[0]);
    const first = [new SotwPeer(), new SotwPeer()].map((peer) => {
      peer.ask('cds');
      peer.push();
      return peer.last[0]?.message.body;
    });
    assert.equal(first[0]?.[0], first[1]?.[0]);
    assert.ok(first[0]?.[0]);
  });

  it('numbers nonces with the snapshot they belong to', () => {
    const peer = new DeltaPeer();
    peer.ask('cds');
    peer.push();
    assert.equal(peer.last[0]?.message.nonce, `${content.version}-1`);
  });
});
