/**
 * The resources of responses, parsed once however many proxies get them: bytes that arrive are compared with the known
 * bodies, in place and piece by piece. Only an unknown body is assembled and parsed.
 */
import { anyValue, contentHash, eachField, factsOf } from '../../test/harness/sim-refs.ts';
import type { Mode } from '../options.ts';
import { CompressedBodies } from './compressed.ts';
import type { ProxyType } from './messages.ts';

/** One object for each name and content. */
export interface Resource {
  readonly name: string;
  /** Identifies the content: its hash (SotW), or name and version (Delta). */
  readonly identity: string;
  /** Delta only. */
  readonly version: string;
  /** Names that it makes a proxy ask for. */
  readonly refs: readonly string[];
}

/** The `resources` fields of a response. */
export interface Body {
  readonly id: number;
  readonly bytes: Buffer;
  readonly resources: readonly Resource[];
}

/** Known bodies of one type and length that are compared; they differ in their first or in their last bytes. */
const MAX_ALIKE = 64;
/** Bytes of bodies kept. Beyond it the oldest are dropped and would be parsed again. */
const MAX_KEPT_BYTES = 768 * 1024 * 1024;

const EMPTY: Body = { id: 0, bytes: Buffer.alloc(0), resources: [] };

/** Unique in all caches: sets of resources use it as a key of their results. */
let ids = 0;

export class BodyIndex {
  readonly mode: Mode;
  readonly compressed = new CompressedBodies();
  readonly #alike = new Map<string, Body[]>();
  readonly #oldest = new Map<Body, string>();
  readonly #resources = new Map<string, WeakRef<Resource>>();
  #kept = 0;

  constructor(mode: Mode) {
    this.mode = mode;
  }

  /** A matcher for a body of this length; an empty one is complete at once. */
  expect(type: ProxyType, length: number): BodyMatch | Body {
    return length === 0 ? EMPTY : new BodyMatch(this, type, length);
  }

  candidates(type: ProxyType, length: number): readonly Body[] {
    return this.#alike.get(`${type} ${length}`) ?? [];
  }

  /** The body with these bytes: a known one, or a new one that is parsed now. */
  take(type: ProxyType, bytes: Buffer): Body {
    const known = this.candidates(type, bytes.length).find((body) => body.bytes.equals(bytes));
    if (known !== undefined) return known;
    const body: Body = { id: ++ids, bytes, resources: this.#parse(type, bytes) };
    const key = `${type} ${bytes.length}`;
    const alike = this.#alike.get(key) ?? [];
    this.#alike.set(key, [body, ...alike.slice(0, MAX_ALIKE - 1)]);
    this.#oldest.set(body, key);
    this.#kept += bytes.length;
    for (const [old, at] of this.#oldest) {
      if (this.#kept <= MAX_KEPT_BYTES) break;
      this.#forget(old, at);
    }
    return body;
  }

  /** The encoded resources of the bodies that are kept, in all of their versions. */
  *contents(type: ProxyType): Generator<Buffer> {
    for (const [{ bytes }, key] of this.#oldest)
      if (key.startsWith(`${type} `)) yield* this.#fields(bytes).map((field) => this.#content(field));
  }

  #fields(bytes: Buffer): Buffer[] {
    const fields: Buffer[] = [];
    eachField(bytes, (_number, value) => fields.push(value));
    return fields;
  }

  /** The message in a field `resources`: an Any, and over Delta a Resource with an Any. */
  #content(field: Buffer): Buffer {
    if (this.mode === 'sotw') return anyValue(field);
    let content: Buffer = Buffer.alloc(0);
    eachField(field, (number, value) => {
      if (number === 2) content = anyValue(value);
    });
    return content;
  }

  #forget(body: Body, key: string): void {
    this.#oldest.delete(body);
    this.#kept -= body.bytes.length;
    const rest = this.candidates(key as ProxyType, body.bytes.length).filter((other) => other !== body);
    if (rest.length === 0) this.#alike.delete(key);
    else this.#alike.set(key, rest);
  }

  #parse(type: ProxyType, bytes: Buffer): Resource[] {
    const resources: Resource[] = [];
    eachField(bytes, (_field, value) => {
      resources.push(this.mode === 'sotw' ? this.#sotw(type, value) : this.#delta(type, value));
    });
    return resources;
  }

  #sotw(type: ProxyType, any: Buffer): Resource {
    const bytes = anyValue(any);
    return this.#interned(type, contentHash(bytes), '', bytes);
  }

  #delta(type: ProxyType, wrapper: Buffer): Resource {
    let [version, name] = ['', ''];
    let any: Buffer | undefined;
    eachField(wrapper, (field, value) => {
      if (field === 1) version = value.toString();
      else if (field === 2) any = value;
      else if (field === 3) name = value.toString();
    });
    const identity = `${name}@${version}`;
    if (any !== undefined) return this.#interned(type, identity, version, anyValue(any));
    // The answer to a request for a virtual host.
    return { name, identity, version, refs: [name.slice(0, name.lastIndexOf('/'))] };
  }

  #interned(type: ProxyType, identity: string, version: string, bytes: Buffer): Resource {
    const key = `${type} ${identity}`;
    const known = this.#resources.get(key)?.deref();
    if (known !== undefined) return known;
    const { name, refs } = factsOf(type, identity, bytes);
    const resource: Resource = { name, identity, version, refs };
    this.#resources.set(key, new WeakRef(resource));
    return resource;
  }
}

/** One body on its way in. */
export class BodyMatch {
  readonly #bodies: BodyIndex;
  readonly #type: ProxyType;
  readonly #length: number;
  #filled = 0;
  /** Equal to all bytes that have arrived so far. */
  #candidate: Body | undefined;
  /** Used when no known body is equal. */
  #own: Buffer | undefined;

  constructor(bodies: BodyIndex, type: ProxyType, length: number) {
    this.#bodies = bodies;
    this.#type = type;
    this.#length = length;
    [this.#candidate] = bodies.candidates(type, length);
    if (this.#candidate === undefined) this.#own = Buffer.allocUnsafeSlow(length);
  }

  get missing(): number {
    return this.#length - this.#filled;
  }

  /** Takes the next piece, of at most `missing` bytes; gives the body when it is complete. */
  piece(bytes: Buffer): Body | undefined {
    if (this.#own === undefined && !this.#fits(this.#candidate, bytes)) this.#change(bytes);
    if (this.#own !== undefined) bytes.copy(this.#own, this.#filled);
    this.#filled += bytes.length;
    if (this.#filled < this.#length) return undefined;
    return this.#own === undefined ? this.#candidate : this.#bodies.take(this.#type, this.#own);
  }

  #fits(body: Body | undefined, bytes: Buffer): boolean {
    return body?.bytes.compare(bytes, 0, bytes.length, this.#filled, this.#filled + bytes.length) === 0;
  }

  /** Another known body with the same beginning, or a copy of the bytes so far. */
  #change(bytes: Buffer): void {
    const begun = this.#candidate?.bytes.subarray(0, this.#filled) ?? Buffer.alloc(0);
    this.#candidate = this.#bodies
      .candidates(this.#type, this.#length)
      .find((body) => this.#fits(body, bytes) && body.bytes.subarray(0, this.#filled).equals(begun));
    if (this.#candidate !== undefined) return;
    this.#own = Buffer.allocUnsafeSlow(this.#length);
    begun.copy(this.#own);
  }
}
