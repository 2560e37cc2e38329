/**
 * The documents in force that this control plane serves to others, by kind, with versions. Documents that it reads from
 * other control planes itself are not served again: two that read each other would keep a deleted document for ever.
 */
import type { Clock, Timer } from '../core/clock.ts';
import { CtlError, toCtlError } from '../core/errors.ts';
import type { Slices } from '../core/slices.ts';
import { encodeFields } from '../protobuf/wire/index.ts';
import { type AnyResource, type MeshKind, type ResourceKey, resourceKey } from '../resources/index.ts';
import { EXCHANGED_KINDS, type ExchangedKind } from './kinds.ts';
import { anyOf, type EncodedResource, encodeResource } from './resource.ts';

/** A document as responses have it. */
export interface ServedDocument extends EncodedResource {
  /** Field `resources` (3) of a response of MCP. */
  readonly inMcp: Buffer;
  /** The Any with the resource. */
  readonly any: Uint8Array;
}

export interface ServedKind {
  /** Differs after every change of the kind. */
  readonly version: string;
  readonly documents: ReadonlyMap<string, ServedDocument>;
}

export interface ServedDocumentsOptions {
  /** The document in force; undefined if there is none, or it is not served. */
  readonly read: (key: ResourceKey) => AnyResource | undefined;
  /** How long changes are collected, ms. */
  readonly delayMs: number;
  readonly clock: Pick<Clock, 'now' | 'setTimer'>;
  /** Runs after other work of the event loop; default: `setImmediate`. */
  readonly soon?: (run: () => void) => void;
  /** Called once for each version of a document that no message can carry; `why` is one line. */
  readonly onLeftOut: (key: ResourceKey, why: string) => void;
}

interface Kept {
  changes: number;
  readonly resources: Map<string, AnyResource>;
  /** Encoded when somebody asks for the kind. */
  served: ServedKind | undefined;
  encoding: Slices<ServedKind> | undefined;
}

/** Documents are encoded for this long without a pause, ms: the delay that other work may see. */
const SLICE_MS = 10;

const NOTHING: ServedKind = { version: '0', documents: new Map() };

export class ServedDocuments {
  readonly #options: ServedDocumentsOptions;
  readonly #kinds: ReadonlyMap<MeshKind, Kept>;
  readonly #encoded = new WeakMap<AnyResource, ServedDocument | CtlError>();
  readonly #listeners = new Set<(kinds: ReadonlySet<MeshKind>) => void>();
  readonly #changed = new Set<MeshKind>();
  #timer: Timer | undefined;
  #closed = false;

  constructor(options: ServedDocumentsOptions) {
    this.#options = options;
    this.#kinds = new Map(
      EXCHANGED_KINDS.map(({ kind }) => [
        kind,
        { changes: 0, resources: new Map(), served: undefined, encoding: undefined },
      ]),
    );
  }

  /**
   * The documents of a kind; none for an undefined kind. Undefined while they are encoded, after which the listeners
   * are called.
   */
  of(kind: ExchangedKind | undefined): ServedKind | undefined {
    const kept = kind && this.#kinds.get(kind.kind);
    if (kind === undefined || kept === undefined) return NOTHING;
    if (kept.served === undefined && kept.encoding === undefined) {
      kept.encoding = this.#encode(kind, kept);
      this.#continue(kind, kept);
    }
    return kept.served;
  }

  /** What is in force of these keys may have changed. */
  changed(keys: Iterable<ResourceKey>): void {
    for (const key of keys) {
      const [kind = '', namespace = '', name = ''] = key.split('/');
      const kept = this.#kinds.get(kind as MeshKind);
      if (kept !== undefined && this.#take(kept, key, `${namespace}/${name}`)) this.#changed.add(kind as MeshKind);
    }
    if (this.#changed.size === 0) return;
    this.#timer ??= this.#options.clock.setTimer(this.#options.delayMs, () => this.#announce());
  }

  /** Calls `listener` after changes. Returns a function that stops this. */
  onChange(listener: (kinds: ReadonlySet<MeshKind>) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  /** @returns whether the document differs from the one before */
  #take(kept: Kept, key: ResourceKey, name: string): boolean {
    const [before, now] = [kept.resources.get(name), this.#options.read(key)];
    if (before?.fingerprint === now?.fingerprint) return false;
    if (now === undefined) kept.resources.delete(name);
    else kept.resources.set(name, now);
    kept.changes += 1;
    kept.served = undefined;
    return true;
  }

  #announce(): void {
    this.#timer = undefined;
    const kinds = new Set(this.#changed);
    this.#changed.clear();
    for (const listener of this.#listeners) listener(kinds);
  }

  /** @returns whether the documents are encoded */
  #continue(kind: ExchangedKind, kept: Kept): boolean {
    const { clock, soon = setImmediate } = this.#options;
    const until = clock.now() + SLICE_MS;
    while (kept.encoding !== undefined && !this.#closed) {
      const step = kept.encoding.next();
      if (step.done === true) {
        kept.encoding = undefined;
        kept.served = step.value;
      } else if (clock.now() >= until) {
        soon(() => {
          if (this.#continue(kind, kept)) for (const listener of this.#listeners) listener(new Set([kind.kind]));
        });
        return false;
      }
    }
    return kept.served !== undefined;
  }

  *#encode(kind: ExchangedKind, kept: Kept): Slices<ServedKind> {
    for (;;) {
      const { changes, resources } = kept;
      const documents = new Map<string, ServedDocument>();
      for (const [name, resource] of [...resources]) {
        const encoded = this.#encodeOne(kind, resource);
        if (!(encoded instanceof CtlError)) documents.set(name, encoded);
        yield;
      }
      // What has changed meanwhile is encoded, too; the others are known by now.
      if (kept.changes === changes) return { version: String(changes), documents };
    }
  }

  #encodeOne(kind: ExchangedKind, resource: AnyResource): ServedDocument | CtlError {
    const known = this.#encoded.get(resource);
    if (known !== undefined) return known;
    let encoded: ServedDocument | CtlError;
    try {
      const sent = encodeResource(kind, resource);
      encoded = { ...sent, inMcp: encodeFields([[3, sent.bytes]]), any: anyOf(sent) };
    } catch (error) {
      // Whatever is wrong with one document, the others are served.
      encoded = toCtlError(error);
      const { namespace, name } = resource.meta;
      this.#options.onLeftOut(resourceKey(kind.kind, namespace, name), encoded.oneLine());
    }
    this.#encoded.set(resource, encoded);
    return encoded;
  }
}
