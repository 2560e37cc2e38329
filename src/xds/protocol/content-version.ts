/**
 * Content hash of what a proxy has of its subscription: the version of the State of the World protocol. Equal content
 * gives an equal version, also after a restart and on another replica.
 */
import { findIn, type Have } from './client-state.ts';
import { covers, type Interest } from './interest.ts';
import { hashResource, type Selections } from './selection.ts';
import { EMPTY_HASH, hashToText, minus, plus, type SetHash } from './set-hash.ts';

interface Asked {
  readonly have: Have;
  readonly interest: Interest;
  readonly version: string;
}

export class ContentVersions {
  readonly #selections: Selections;
  readonly #remember: boolean;
  /** What was asked for last: proxies that have the same ask one after the other. */
  #last: Asked | undefined;

  /** @param remember whether the last answer is */
  constructor(selections: Selections, remember: boolean) {
    this.#selections = selections;
    this.#remember = remember;
  }

  /** `previous` is what the proxy had before: hashing goes on from there. */
  of(have: Have, interest: Interest, previous: Have): string {
    const { wildcard, names } = interest;
    const last = this.#last;
    if (last?.have === have && last.interest.names === names && last.interest.wildcard === wildcard)
      return last.version;
    const version = this.#make(have, interest, previous);
    if (this.#remember) this.#last = { have, interest, version };
    return version;
  }

  #make(have: Have, interest: Interest, previous: Have): string {
    let hash: SetHash = EMPTY_HASH;
    have.bases.forEach((bundle, index) => {
      const before = previous.bases[index];
      const from = before?.viewKey === bundle.viewKey ? before : undefined;
      hash = plus(hash, this.#selections.contentHash(bundle, interest, from));
    });
    for (const [name, held] of have.overlay) {
      if (!covers(interest, name)) continue;
      const current = findIn(have.bases, name);
      if (current !== undefined) hash = minus(hash, hashResource(name, current.version));
      if (held !== undefined) hash = plus(hash, hashResource(name, held.version));
    }
    return hashToText(hash);
  }
}
