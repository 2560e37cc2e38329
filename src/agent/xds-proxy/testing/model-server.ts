/**
 * A model of a control plane with two types of resources. Its nonces begin at 1 on each stream, and it fails the test
 * when a request breaks the protocol.
 */
import assert from 'node:assert/strict';
import { encodeFields } from '../../../protobuf/wire/index.ts';
import { readRequest, type Variant } from '../messages.ts';
import { responseOf } from './control-plane.ts';

/** The values of a type's resources, by name. */
export type Content = (typeUrl: string) => Map<string, string>;

/** A response that was sent. */
interface Sent {
  readonly nonce: string;
  readonly id: string;
  readonly names: readonly string[];
  readonly content: string;
}

/** What the control plane knows of one type on one stream. */
interface Served {
  wildcard: boolean;
  names: Set<string>;
  /** Versions that the client was sent or has reported; '' for a removal. */
  readonly sent: Map<string, string>;
  outstanding: Sent | undefined;
  /** Its resources are sent again with the next change. */
  rejected: Sent | undefined;
  /** A response is needed also without a change. */
  owed: boolean;
}

/** A control plane with one unacknowledged response of a type at most. */
export class ModelServer {
  readonly content: Content;
  readonly #variant: Variant;
  readonly #acknowledged: (id: string) => void;
  readonly #newId: () => string;
  #types = new Map<string, Served>();
  #nonces = 0;
  #open = false;
  #hasNode = false;

  constructor(variant: Variant, content: Content, newId: () => string, acknowledged: (id: string) => void) {
    this.#variant = variant;
    this.content = content;
    this.#newId = newId;
    this.#acknowledged = acknowledged;
  }

  open(): void {
    this.#types = new Map();
    this.#nonces = 0;
    this.#open = true;
    this.#hasNode = false;
  }

  close(): void {
    this.#open = false;
  }

  receive(bytes: Buffer): void {
    const { typeUrl, node, nonce, nack, names, unsubscribe, initialVersions, version } = readRequest(
      this.#variant,
      bytes,
    );
    this.#hasNode ||= node !== undefined;
    assert.ok(this.#hasNode, 'the first request of a stream has no node');
    const known = this.#types.get(typeUrl);
    const served = known ?? {
      wildcard: false,
      names: new Set(),
      sent: new Map(),
      outstanding: undefined,
      rejected: undefined,
      owed: false,
    };
    this.#types.set(typeUrl, served);
    if (nonce !== '') {
      assert.ok(known !== undefined, 'the first request of a type on a stream acknowledges something');
      const { outstanding } = served;
      if (outstanding?.nonce === nonce) {
        if (nack === undefined) this.#acknowledged(outstanding.id);
        else served.rejected = outstanding;
        served.outstanding = undefined;
      } else if (this.#variant === 'sotw') {
        // Outdated: the answer to the latest response follows.
        if (outstanding !== undefined) return;
        assert.ok(Number(nonce) <= this.#nonces, `a nonce of another stream: ${nonce}`);
      } else assert.fail(`a nonce that is not outstanding: ${nonce}`);
    }
    if (this.#variant === 'delta') {
      if (known === undefined) {
        served.wildcard = names.length === 0;
        for (const [each, has] of initialVersions) served.sent.set(each, has);
        served.owed = served.wildcard && initialVersions.size === 0;
      }
      for (const each of names) {
        if (each === '*') served.wildcard = true;
        else {
          served.names.add(each);
          if (known !== undefined) served.sent.delete(each);
        }
      }
      for (const each of unsubscribe) {
        served.names.delete(each);
        served.sent.delete(each);
      }
      return;
    }
    const added = names.filter((each) => !served.names.has(each));
    served.wildcard = names.length === 0 && (known === undefined || served.wildcard);
    served.names = new Set(names);
    for (const each of served.sent.keys()) if (!served.wildcard && !served.names.has(each)) served.sent.delete(each);
    for (const each of added) served.sent.delete(each);
    if (known === undefined) {
      // The version is that of the whole type at some time; a client that has it gets only what has changed since.
      served.owed = version === '' || version !== versionOf(this.content(typeUrl));
      const content = this.content(typeUrl);
      if (version === versionOf(content))
        for (const each of content.keys()) served.sent.set(each, content.get(each) ?? '');
    }
  }

  /** The next response, if there is anything to send. */
  next(): Buffer | undefined {
    if (!this.#open) return undefined;
    for (const [typeUrl, served] of this.#types) {
      const { wildcard, names, sent, outstanding } = served;
      const content = this.content(typeUrl);
      const { rejected } = served;
      if (outstanding !== undefined || rejected?.content === versionOf(content)) continue;
      for (const each of rejected?.names ?? []) sent.set(each, 'rejected');
      served.rejected = undefined;
      const wanted = [...new Set([...(wildcard ? [...content.keys(), ...sent.keys()] : []), ...names])];
      const changed = wanted.filter((each) => sent.get(each) !== (content.get(each) ?? ''));
      if (this.#variant === 'sotw') {
        const full = wildcard;
        const isNews = changed.some((each) => content.has(each) || full);
        if (!isNews && !served.owed) continue;
        if (!full && !changed.some((each) => content.has(each))) continue;
        const included = (full ? [...content.keys()] : changed).filter((each) => content.has(each));
        for (const each of changed) sent.set(each, content.get(each) ?? '');
        if (full) for (const each of sent.keys()) if (!content.has(each)) sent.delete(each);
        return this.#response(typeUrl, served, included, []);
      }
      if (changed.length === 0 && !served.owed) continue;
      for (const each of changed) sent.set(each, content.get(each) ?? '');
      return this.#response(
        typeUrl,
        served,
        changed.filter((each) => content.has(each)),
        changed.filter((each) => !content.has(each)),
      );
    }
    return undefined;
  }

  #response(typeUrl: string, served: Served, names: readonly string[], removed: readonly string[]): Buffer {
    const content = this.content(typeUrl);
    const nonce = String(++this.#nonces);
    const id = this.#newId();
    served.outstanding = { nonce, id, names: [...names, ...removed], content: versionOf(content) };
    served.owed = false;
    const resources = names.map((each) => {
      const value = content.get(each) ?? '';
      return [
        each,
        value,
        encodeFields([
          [1, each],
          [2, value],
          [100, id],
        ]),
      ] as const;
    });
    // With State of the World the version is that of the content.
    const version = this.#variant === 'sotw' ? versionOf(content) : id;
    return responseOf(this.#variant, typeUrl, resources, { nonce, version, removed });
  }
}

const versionOf = (content: ReadonlyMap<string, string>): string =>
  [...content]
    .map(([each, value]) => `${each}=${value}`)
    .sort()
    .join(',');
