/**
 * The version in responses of the state of the world variant: a hash of the resources that the proxy has of its
 * subscription. Equal content has an equal version, even after a restart and on another replica.
 */
import { type ClientState, findResource } from './client-state.ts';
import { covers, type Interest } from './interest.ts';
import { hashResource, type Selections } from './selection.ts';
import { EMPTY_HASH, hashToText, minus, plus, type SetHash } from './set-hash.ts';

interface Computed {
  readonly state: ClientState;
  readonly interest: Interest;
  readonly version: string;
}

export class ContentVersions {
  readonly #selections: Selections;
  readonly #remember: boolean;
  /** The last result is kept because proxies in the same state follow one another. */
  #last: Computed | undefined;

  /** @param remember false: every version is computed again */
  constructor(selections: Selections, remember: boolean) {
    this.#selections = selections;
    this.#remember = remember;
  }

  /** @param previous the proxy's state before: only the difference is hashed */
  of(state: ClientState, interest: Interest, previous: ClientState): string {
    const { wildcard, names } = interest;
    const last = this.#last;
    if (last?.state === state && last.interest.names === names && last.interest.wildcard === wildcard)
      return last.version;
    const version = this.#make(state, interest, previous);
    if (this.#remember) this.#last = { state, interest, version };
    return version;
  }

  #make(state: ClientState, interest: Interest, previous: ClientState): string {
    let hash: SetHash = EMPTY_HASH;
    state.bases.forEach((bundle, index) => {
      const before = previous.bases[index];
      const from = before?.viewKey === bundle.viewKey ? before : undefined;
      hash = plus(hash, this.#selections.contentHash(bundle, interest, from));
    });
    for (const [name, known] of state.overlay) {
      if (!covers(interest, name)) continue;
      const current = findResource(state.bases, name);
      if (current !== undefined) hash = minus(hash, hashResource(name, current.version));
      if (known !== undefined) hash = plus(hash, hashResource(name, known.version));
    }
    return hashToText(hash);
  }
}
