/**
 * The resources that Envoy has accepted, for an Envoy that starts while the control plane cannot be reached. Their
 * bytes are slices of the messages in which they arrived.
 */
import type { DiscoveryResponse, LocatedResource, Variant } from './messages.ts';
import { type Compared, isFullSet } from './subscription.ts';

/** The accepted resources of a type. */
export interface SnapshotType extends Compared {
  readonly resources: ReadonlyMap<string, LocatedResource>;
}

/** Messages that the slices keep alive beyond their own length are copied above this number of bytes. */
const SLACK_BYTES = 1024 * 1024;

class Type implements SnapshotType {
  version = '';
  resources = new Map<string, LocatedResource>();
  /** Maximum bytes of messages that the resources keep in memory. */
  keptBytes = 0;

  versionOf(name: string): string | undefined {
    return this.resources.get(name)?.version;
  }
}

export class Snapshot {
  readonly variant: Variant;
  /** When the control plane last confirmed the snapshot, epoch ms. */
  asOf: number;
  readonly #types = new Map<string, Type>();
  readonly #changed: () => void;
  #bytes = 0;
  /** Whether the file may be kept, in which resources of several types are. */
  #isLoaded = false;

  /** @param changed is called after each change */
  constructor(variant: Variant, asOf: number, changed: () => void = () => undefined) {
    this.variant = variant;
    this.asOf = asOf;
    this.#changed = changed;
  }

  get(typeUrl: string): SnapshotType | undefined {
    return this.#types.get(typeUrl);
  }

  types(): IterableIterator<readonly [typeUrl: string, type: SnapshotType]> {
    return this.#types.entries();
  }

  get isEmpty(): boolean {
    return this.#types.size === 0;
  }

  /** Bytes of all resources. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Maximum bytes that the snapshot keeps from being freed. */
  get keptBytes(): number {
    let sum = 0;
    for (const { keptBytes } of this.#types.values()) sum += keptBytes;
    return sum;
  }

  /**
   * Envoy has accepted a response.
   *
   * @param replace whether Envoy had nothing of the type before
   * @param wanted whether Envoy still subscribes to a name
   */
  accept(response: DiscoveryResponse, replace: boolean, wanted: (name: string) => boolean): void {
    const { typeUrl, version, resources, removed } = response;
    const type = this.#typeOf(typeUrl);
    if (replace || (this.variant === 'sotw' && isFullSet(typeUrl))) this.#clear(type);
    type.version = version;
    for (const resource of resources) if (wanted(resource.name)) this.#set(type, resource);
    for (const name of removed) this.#delete(type, name);
    for (const kept of new Set(resources.map(({ bytes }) => bytes.buffer))) type.keptBytes += kept.byteLength;
    if (this.keptBytes > 2 * this.#bytes + SLACK_BYTES) this.#compact();
    this.#changed();
  }

  /** Adds a type that was read from a file. */
  load(typeUrl: string, version: string, resources: readonly LocatedResource[]): void {
    const type = this.#typeOf(typeUrl);
    type.version = version;
    for (const resource of resources) this.#set(type, resource);
    type.keptBytes = resources.reduce((sum, { bytes }) => sum + bytes.length, 0);
    this.#isLoaded = true;
  }

  /** Removes the resources that Envoy does not have. */
  retain(typeUrl: string, has: (name: string) => boolean): void {
    const type = this.#types.get(typeUrl);
    if (type === undefined) return;
    const before = type.resources.size;
    for (const name of type.resources.keys()) if (!has(name)) this.#delete(type, name);
    if (type.resources.size < before) this.#changed();
  }

  #typeOf(typeUrl: string): Type {
    const known = this.#types.get(typeUrl);
    if (known !== undefined) return known;
    const made = new Type();
    this.#types.set(typeUrl, made);
    return made;
  }

  #set(type: Type, resource: LocatedResource): void {
    this.#delete(type, resource.name);
    type.resources.set(resource.name, resource);
    this.#bytes += resource.bytes.length;
  }

  #delete(type: Type, name: string): void {
    const known = type.resources.get(name);
    if (known === undefined) return;
    type.resources.delete(name);
    this.#bytes -= known.bytes.length;
  }

  #clear(type: Type): void {
    for (const { bytes } of type.resources.values()) this.#bytes -= bytes.length;
    type.resources.clear();
    // Nothing else keeps the messages of the type: a new configuration of State of the World needs no copy.
    if (!this.#isLoaded) type.keptBytes = 0;
  }

  /** Copies the resources of each type into one buffer, so that the messages can be freed. */
  #compact(): void {
    for (const type of this.#types.values()) {
      const resources = [...type.resources.values()];
      const all = Buffer.concat(resources.map(({ bytes }) => bytes));
      let at = 0;
      type.resources = new Map();
      for (const { name, version, bytes } of resources) {
        type.resources.set(name, { name, version, bytes: all.subarray(at, at + bytes.length) });
        at += bytes.length;
      }
      type.keptBytes = at;
    }
    this.#isLoaded = false;
  }
}
