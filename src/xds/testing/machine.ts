/** Test support: proxies that a test makes exchange messages with a protocol machine, without a socket. */

import assert from 'node:assert/strict';
import { XDS, type XdsType } from '../../core/xds-types.ts';
import type { Answer } from '../protocol/inflight.ts';
import { AdsMachine, type Outgoing } from '../protocol/machine.ts';
import type { DeltaRequest, SotwRequest } from '../protocol/requests.ts';
import { encodeResponse } from '../server/encode-response.ts';
import {
  Content,
  type DeltaFields,
  encodeDeltaRequest,
  encodeSotwRequest,
  type ParsedResponse,
  parseDelta,
  parseSotw,
  type SotwFields,
} from './content.ts';
import { DELTA, DELTA_REQUESTS, SOTW, SOTW_REQUESTS } from './protocols.ts';

/** A response in one line: `cds web api -gone`. */
function story(type: XdsType, response: ParsedResponse): string {
  return [
    type,
    ...response.resources.map(({ name }) => name).sort(),
    ...response.removed.map((name) => `-${name}`),
  ].join(' ');
}

/** A proxy of the Delta variant that sends the requests of a test. */
export class DeltaPeer {
  readonly #content: Content;
  readonly machine = new AdsMachine<DeltaRequest>(DELTA);
  last: readonly Outgoing[] = [];

  constructor(content: Content) {
    this.#content = content;
  }

  ask(type: XdsType, fields: Omit<DeltaFields, 'typeUrl'> = {}): Answer {
    const bytes = encodeDeltaRequest({ typeUrl: XDS[type].url, ...fields });
    return this.machine.receive(type, DELTA_REQUESTS.decode(bytes), this.#content.parts, 0);
  }
  push(): string[] {
    const { messages } = this.machine.push(this.#content.parts, this.#content.version);
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
  /** A proxy that is up to date with the content. */
  static current(content: Content): DeltaPeer {
    const peer = new DeltaPeer(content);
    peer.ask('cds', { initial: content.versions('cds') });
    peer.ask('eds', { subscribe: [...content.versions('eds').keys()], initial: content.versions('eds') });
    peer.ask('sds', { subscribe: [...content.versions('sds').keys()], initial: content.versions('sds') });
    peer.ask('lds', { initial: content.versions('lds') });
    peer.ask('rds', { subscribe: [...content.versions('rds').keys()], initial: content.versions('rds') });
    const extensions = content.versions('ecds');
    if (extensions.size > 0) peer.ask('ecds', { subscribe: [...extensions.keys()], initial: extensions });
    for (const type of ['vhds', 'nds'] as const) {
      const initial = content.versions(type);
      if (initial.size > 0) peer.ask(type, { initial });
    }
    peer.machine.stopAwaiting();
    return peer;
  }
}

/** A proxy of the state of the world variant. */
export class SotwPeer {
  readonly #content: Content;
  readonly machine = new AdsMachine<SotwRequest>(SOTW);
  readonly versions = new Map<XdsType, string>();
  last: readonly Outgoing[] = [];
  readonly #names = new Map<XdsType, readonly string[]>();

  constructor(content: Content) {
    this.#content = content;
  }

  ask(type: XdsType, fields: Omit<SotwFields, 'typeUrl'> = {}): Answer {
    const names = fields.names ?? this.#names.get(type) ?? [];
    this.#names.set(type, names);
    const bytes = encodeSotwRequest({
      typeUrl: XDS[type].url,
      version: this.versions.get(type) ?? '',
      ...fields,
      names,
    });
    return this.machine.receive(type, SOTW_REQUESTS.decode(bytes), this.#content.parts, 0);
  }
  push(): string[] {
    const { messages } = this.machine.push(this.#content.parts, this.#content.version);
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

/** Sends `a` and `b`: the proxy rejects `a` and applies `b`. Then it rejects a new `b`, and keeps the first. */
export function rejectTwice(content: Content, peer: DeltaPeer | SotwPeer, first: string, second: string): void {
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

/** A cluster with endpoints, one without, a listener and its route. */
export function filled(): Content {
  const content = new Content();
  content.set('cds', 'web', '1', ['eds-web']);
  content.set('cds', 'in-web', '1');
  content.set('eds', 'eds-web', '1');
  content.set('sds', 'site-cert', '1');
  content.set('lds', 'http', '1', ['80']);
  content.set('rds', '80', '1');
  return content;
}
