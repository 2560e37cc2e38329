/**
 * The outbound clusters that encoded resources name: found in their bytes, so that no field can be forgotten that
 * refers to a cluster (routes, weights, mirrors, authorizers, access logs, tracers, TCP proxies), nor the configuration
 * of a plugin (Lua, Wasm).
 */
import type { Memos, WeakMemo } from '../../core/memo.ts';
import { OUTBOUND_PREFIX } from '../../generate/index.ts';
import { LENGTH_DELIMITED, type WireField, WireReader } from '../../protobuf/wire/index.ts';
import type { Bundle, EncodedResource } from '../../push/index.ts';
import { type NameSet, type NameSets, NO_NAMES } from '../protocol/index.ts';

export { OUTBOUND_PREFIX };

const PREFIX = Buffer.from(OUTBOUND_PREFIX);
/** Part of the names of secrets that `ctl-discovery` serves: Envoy uses such a cluster when it has the secret. */
const SECRET_PREFIX = 'kubernetes://';
const CONTINUES = 0x80;

/** Whether a byte is of a name: `outbound|<port>|<subset>|<host>`. */
const IN_NAMES: readonly boolean[] = Array.from({ length: 256 }, (_, byte) =>
  /[\w.*|-]/.test(String.fromCharCode(byte)),
);

/** Whether a name is that of an outbound cluster. */
export function isOutbound(name: string): boolean {
  return name.startsWith(OUTBOUND_PREFIX);
}

/** Length of the string that begins at `start`; 0 if no string can begin there. */
function lengthBefore(bytes: Uint8Array, start: number): number {
  const last = bytes[start - 1] ?? 0;
  if (last >= CONTINUES) return 0;
  if (last >= PREFIX.length) return last;
  // A length of two bytes: the first one has the lower bits.
  const first = bytes[start - 2] ?? 0;
  return first >= CONTINUES ? (first & ~CONTINUES) | (last << 7) : 0;
}

/** Where the characters of a name end that begins at `start`. */
function endOfName(bytes: Uint8Array, start: number): number {
  let end = start;
  while (IN_NAMES[bytes[end] ?? 0] === true) end++;
  return end;
}

/** What a message says about outbound clusters. May contain strings that only look like the name of one. */
export interface NamedClusters {
  /** Those that it leads to. */
  readonly led: ReadonlySet<string>;
  /** Those that Envoy asks for, of which it may have none. */
  readonly askable: ReadonlySet<string>;
}

const NONE: ReadonlySet<string> = new Set();
/** One object for the many resources that name none. */
const NOTHING_NAMED: NamedClusters = { led: NONE, askable: NONE };

export function clusterNamesIn(bytes: Uint8Array): NamedClusters {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  if (!buffer.includes(PREFIX)) return NOTHING_NAMED;
  const { led, askable } = namesIn(buffer);
  return { led, askable: askable.size === 0 ? NONE : askable };
}

function namesIn(buffer: Buffer): NamedClusters {
  const named = { led: new Set<string>(), askable: new Set<string>() };
  const asking = askingProxiesIn(buffer);
  let next = 0;
  for (let at = buffer.indexOf(PREFIX); at >= 0; at = buffer.indexOf(PREFIX, at + 1)) {
    while ((asking[next]?.end ?? Infinity) <= at) next++;
    const found = at < (asking[next]?.start ?? Infinity) ? named.led : named.askable;
    // A string follows its length. A name may also be within a string.
    const [end, within] = [at + lengthBefore(buffer, at), endOfName(buffer, at)];
    if (end > at && end <= buffer.length) found.add(buffer.toString('utf8', at, end));
    if (end !== within) found.add(buffer.toString('utf8', at, within));
  }
  return named;
}

interface Range {
  readonly start: number;
  readonly end: number;
}

/** Begins a TCP proxy in an Any: its type, and the tag of its bytes. */
const TCP_PROXY = Buffer.from('type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy\x12');
/** Fields of envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy. */
const TCP = { statPrefix: 1, cluster: 2, weightedClusters: 10, onDemand: 14 };
const NAMING: ReadonlySet<number> = new Set([TCP.statPrefix, TCP.cluster, TCP.weightedClusters]);

/** Where TCP proxies name clusters that Envoy asks for, in ascending order. */
function askingProxiesIn(buffer: Buffer): readonly Range[] {
  const found: Range[] = [];
  for (let at = buffer.indexOf(TCP_PROXY); at >= 0; at = buffer.indexOf(TCP_PROXY, at + 1)) {
    const fields = fieldsOf(buffer, at + TCP_PROXY.length - 1);
    if (fields.some(({ number }) => number === TCP.onDemand))
      found.push(...fields.filter(({ number }) => NAMING.has(number)));
  }
  return found;
}

/**
 * Whether a proxy has a cluster from the start. Envoy uses clusters without EDS once names are resolved, and those with
 * secrets of `ctl-discovery` once it has the secret: the first request would be too early.
 */
export function isUnaskable({ name, refs, fragment }: EncodedResource): boolean {
  if (!isOutbound(name) || refs.length === 0) return true;
  return Buffer.from(fragment.buffer, fragment.byteOffset, fragment.length).includes(SECRET_PREFIX);
}

/** The fields of the message in the field that begins at `tag`; none if there is none. */
function fieldsOf(buffer: Buffer, tag: number): readonly Pick<WireField, 'number' | 'start' | 'end'>[] {
  try {
    const field = new WireReader(buffer, tag).next();
    if (field?.wireType !== LENGTH_DELIMITED) return [];
    const reader = new WireReader(buffer, field.start, field.end);
    const fields = [];
    for (let each = reader.next(); each !== undefined; each = reader.next())
      fields.push({ number: each.number, start: each.start, end: each.end });
    return fields;
  } catch {
    // A string that looks like a TCP proxy: whatever it names counts.
    return [];
  }
}

/** The clusters that bundles name, of one server. */
export class ClusterNames {
  readonly #names: NameSets;
  readonly #ofResource: WeakMemo<EncodedResource, NamedClusters>;
  readonly #ofBundle: WeakMemo<Bundle, { readonly led: NameSet; readonly askable: NameSet }>;

  constructor(names: NameSets, memos: Memos) {
    this.#names = names;
    this.#ofResource = memos.weak('clusters that resources name');
    this.#ofBundle = memos.weak('clusters that bundles name');
  }

  /** The clusters that a resource leads to. */
  ofResource(resource: EncodedResource): ReadonlySet<string> {
    return this.#of(resource).led;
  }

  #of(resource: EncodedResource): NamedClusters {
    return this.#ofResource.get(resource, () => clusterNamesIn(resource.fragment.subarray(resource.anyOffset)));
  }

  #in(bundle: Bundle): { readonly led: NameSet; readonly askable: NameSet } {
    return this.#ofBundle.get(bundle, () => {
      const named = bundle.resources().map((resource) => this.#of(resource));
      return {
        led: this.#names.of(named.flatMap(({ led }) => [...led])),
        askable: this.#names.of(named.flatMap(({ askable }) => [...askable])),
      };
    });
  }

  /** The clusters that bundles lead to. */
  ofBundles(bundles: readonly Bundle[]): NameSet {
    return bundles.reduce((all, bundle) => this.#names.change(all, this.#in(bundle).led, NO_NAMES), NO_NAMES);
  }

  /** The clusters that Envoy asks for. */
  askable(bundles: readonly Bundle[]): NameSet {
    return bundles.reduce((all, bundle) => this.#names.change(all, this.#in(bundle).askable, NO_NAMES), NO_NAMES);
  }
}
