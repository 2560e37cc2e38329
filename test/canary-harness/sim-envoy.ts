/**
 * A simulated Envoy on a real stream of the server, without a socket: it subscribes as Envoy does, and rejects what is
 * marked, unless it lies, is silent or leaves.
 */
import type { ProxyNode } from '../../src/core/proxy.ts';
import { XDS, xdsTypeOfUrl } from '../../src/core/xds-types.ts';
import { WireReader } from '../../src/protobuf/wire/index.ts';
import { encodeDeltaRequest, encodeNode, encodeSotwRequest } from '../../src/xds/testing/content.ts';
import { contentHash, factsOf, type SimType } from '../harness/sim-refs.ts';

/** Resources that contain this are rejected. */
export const BAD = 'refused-by-envoy';

/**
 * `honest` rejects what is marked; `credulous` accepts everything, `refuser` rejects everything that changes; `silent`
 * answers nothing, and `leaving` disconnects, as soon as it has its first configuration.
 */
export type Behaviour = 'honest' | 'credulous' | 'refuser' | 'silent' | 'leaving';

export interface SimEnvoyOptions {
  readonly node: ProxyNode;
  readonly mode: 'sotw' | 'delta';
  readonly behaviour: Behaviour;
  /** Sends an encoded request; called in a later turn than the response that it answers. */
  readonly send: (request: Buffer) => void;
  readonly leave: () => void;
}

const TYPES: readonly SimType[] = ['cds', 'eds', 'lds', 'rds'];

interface Resource {
  readonly name: string;
  readonly bytes: Buffer;
}

export class SimEnvoy {
  readonly options: SimEnvoyOptions;
  /** Accepted resources, as text, by type and name. */
  readonly has: Record<SimType, Map<string, string>> = {
    cds: new Map(),
    eds: new Map(),
    lds: new Map(),
    rds: new Map(),
  };
  /** Marked resources that it was sent, as text. */
  readonly bad: string[] = [];
  readonly nacks: string[] = [];
  /** Its first configuration is complete: from now on it behaves as it likes. */
  started = false;
  readonly #refs = new Map<string, readonly string[]>();
  readonly #asked: Record<SimType, ReadonlySet<string>> = {
    cds: new Set(),
    eds: new Set(),
    lds: new Set(),
    rds: new Set(),
  };
  readonly #versions = new Map<SimType, string>();

  constructor(options: SimEnvoyOptions) {
    this.options = options;
  }

  start(): void {
    const { id } = this.options.node;
    const node = encodeNode(id, {});
    if (this.options.mode === 'delta') {
      this.options.send(encodeDeltaRequest({ typeUrl: XDS.cds.url, node }));
      this.options.send(encodeDeltaRequest({ typeUrl: XDS.lds.url }));
    } else {
      this.options.send(encodeSotwRequest({ typeUrl: XDS.cds.url, node }));
      this.options.send(encodeSotwRequest({ typeUrl: XDS.lds.url }));
    }
  }

  /** Reads the frames of a write. */
  received(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      const length = bytes.readUInt32BE(at + 1);
      this.#response(Buffer.from(bytes.subarray(at + 5, at + 5 + length)));
      at += 5 + length;
    }
  }

  #response(message: Buffer): void {
    const { type, nonce, version, resources, removed } = parse(message, this.options.mode);
    if (type === undefined) return;
    const { behaviour } = this.options;
    const marked = resources.filter(({ bytes, name }) => bytes.includes(BAD) && this.#isNew(type, name, bytes));
    const isWrong = marked.length > 0;
    for (const { bytes } of marked) this.bad.push(bytes.toString('latin1'));
    if (this.started && behaviour === 'silent') return;
    if (this.started && behaviour === 'leaving' && type !== 'eds') {
      this.options.leave();
      return;
    }
    const changed = resources.filter(({ name, bytes }) => this.#isNew(type, name, bytes));
    const rejected =
      behaviour === 'refuser' && this.started && type !== 'eds' ? changed : behaviour === 'credulous' ? [] : marked;
    if ((isWrong && behaviour === 'honest') || rejected.length > 0) {
      const names = rejected.map(({ name }) => `${name}: no good`);
      const what = {
        cds: `Error adding/updating cluster(s) ${names.join(', ')}`,
        lds: `Error adding/updating listener(s) ${names.join('\n')}`,
      };
      const error = type === 'cds' || type === 'lds' ? what[type] : 'no good';
      this.nacks.push(error);
      this.#ask(type, nonce, error);
      return;
    }
    const full = this.options.mode === 'sotw' && (type === 'cds' || type === 'lds');
    if (full) this.has[type].clear();
    for (const { name, bytes } of resources) {
      this.has[type].set(name, bytes.toString('latin1'));
      this.#refs.set(`${type} ${name}`, factsOf(type, contentHash(bytes), bytes).refs);
    }
    for (const name of removed) this.has[type].delete(name);
    this.#versions.set(type, version);
    if (type === 'cds') this.#subscribe('eds', type);
    if (type === 'lds') this.#subscribe('rds', type);
    this.#ask(type, nonce);
  }

  #isNew(type: SimType, name: string, bytes: Buffer): boolean {
    return this.has[type].get(name) !== bytes.toString('latin1');
  }

  #subscribe(type: 'eds' | 'rds', by: 'cds' | 'lds'): void {
    const names = new Set([...this.has[by].keys()].flatMap((name) => this.#refs.get(`${by} ${name}`) ?? []));
    const before = this.#asked[type];
    this.#asked[type] = names;
    const [added, dropped] = [names.difference(before), before.difference(names)];
    for (const name of dropped) this.has[type].delete(name);
    if (added.size + dropped.size === 0) return;
    if (this.options.mode === 'delta')
      this.options.send(
        encodeDeltaRequest({ typeUrl: XDS[type].url, subscribe: [...added], unsubscribe: [...dropped] }),
      );
    else this.#ask(type, this.#nonces.get(type) ?? '');
  }

  readonly #nonces = new Map<SimType, string>();

  #ask(type: SimType, nonce: string, error?: string): void {
    this.#nonces.set(type, nonce);
    const typeUrl = XDS[type].url;
    const more = error === undefined ? {} : { error };
    if (this.options.mode === 'delta') this.options.send(encodeDeltaRequest({ typeUrl, nonce, ...more }));
    else {
      const version = this.#versions.get(type) ?? '';
      this.options.send(encodeSotwRequest({ typeUrl, nonce, version, names: [...this.#asked[type]], ...more }));
    }
  }
}

interface Response {
  readonly type: SimType | undefined;
  readonly nonce: string;
  readonly version: string;
  readonly resources: readonly Resource[];
  readonly removed: readonly string[];
}

function parse(message: Buffer, mode: 'sotw' | 'delta'): Response {
  const reader = new WireReader(message);
  const resources: Resource[] = [];
  const removed: string[] = [];
  let [version, url, nonce] = ['', '', ''];
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) version = reader.text(field);
    else if (field.number === 2) {
      const any = mode === 'sotw' ? reader.content(field) : (fieldOf(reader.content(field), 2) ?? Buffer.alloc(0));
      const bytes = fieldOf(any, 2) ?? Buffer.alloc(0);
      resources.push({ name: fieldOf(bytes, 1)?.toString() ?? '', bytes });
    } else if (field.number === 4) url = reader.text(field);
    else if (field.number === 5) nonce = reader.text(field);
    else if (field.number === 6 && mode === 'delta') removed.push(reader.text(field));
  }
  const type = TYPES.find((each) => each === xdsTypeOfUrl(url));
  return { type, nonce, version, resources, removed };
}

function fieldOf(bytes: Buffer, number: number): Buffer | undefined {
  const reader = new WireReader(bytes);
  for (let field = reader.next(); field !== undefined; field = reader.next())
    if (field.number === number) return reader.content(field);
  return undefined;
}
