/**
 * The uncertain state of a proxy that has rejected responses: the proxy may have applied a part of each response, so
 * for each resource it has either the version before the response or the version that was sent.
 */
import type { Bundle, EncodedResource } from '../../../push/index.ts';
import { type ClientState, knownResource, sameViews } from '../client-state.ts';

/** A rejected response. */
interface Doubt {
  /** The state before the response, and the state after applying the response completely. */
  readonly before: ClientState;
  readonly after: ClientState;
  /** Names that the proxy has rejected: it keeps the previous versions of these. */
  readonly rejected: ReadonlySet<string>;
  /** Names that the proxy has acknowledged since. */
  readonly settled: Set<string>;
}

export class Doubts {
  /** Names whose version is not known for another reason. */
  readonly #names = new Set<string>();
  readonly #doubts: Doubt[] = [];

  get empty(): boolean {
    return this.#names.size === 0 && this.#doubts.length === 0;
  }

  addNames(names: Iterable<string>): void {
    for (const name of names) this.#names.add(name);
  }

  /** Records a rejected response that would have changed the state of the proxy. */
  addResponse(before: ClientState, after: ClientState, rejected: readonly string[]): void {
    this.#doubts.push({ before, after, rejected: new Set(rejected), settled: new Set() });
  }

  /** The proxy has acknowledged its resources of these names. */
  settle(resources: readonly EncodedResource[]): void {
    for (const { name } of resources) {
      this.#names.delete(name);
      for (const { settled } of this.#doubts) settled.add(name);
    }
  }

  /** Whether it is unknown which version of this name the proxy has. */
  concern(name: string): boolean {
    return this.#names.has(name) || this.#doubts.some((doubt) => changes(doubt, name));
  }

  /** Adds the names of which the proxy may have something else than the parts. */
  touch(names: Set<string>, parts: readonly Bundle[]): void {
    for (const name of this.#names) names.add(name);
    for (const { after } of this.#doubts) addDifferences(names, after, parts);
  }
}

/** What is read of doubts. */
export type KnownDoubts = Pick<Doubts, 'empty' | 'concern' | 'touch'>;

/** Those of a proxy that has rejected nothing. */
export const NO_DOUBTS: KnownDoubts = new Doubts();

function changes({ before, after, rejected, settled }: Doubt, name: string): boolean {
  if (rejected.has(name) || settled.has(name)) return false;
  return knownResource(before, name)?.version !== knownResource(after, name)?.version;
}

/** Adds the names that may differ between a state and the parts. */
export function addDifferences(names: Set<string>, { bases, overlay }: ClientState, parts: readonly Bundle[]): void {
  for (const name of overlay.keys()) names.add(name);
  if (!sameViews(bases, parts)) {
    // The proxy now has other views (for example, because its labels changed): every name of both sides is compared.
    for (const bundle of [...bases, ...parts]) for (const { name } of bundle.resources()) names.add(name);
    return;
  }
  parts.forEach((bundle, index) => {
    if (bundle === bases[index]) return;
    const diff = bundle.diffFrom(bases[index]);
    for (const resource of diff.changed) names.add(resource.name);
    for (const name of diff.removed) names.add(name);
  });
}
