/**
 * Hands documents over to the policy thread: those that have changed, a bounded number in each turn of the event loop,
 * so that a change of many documents delays no push.
 */
import type { PolicyDocument, ToPolicyThread } from '../../policy/index.ts';

/** Documents in one turn: they are cloned for the other thread, which takes about a millisecond. */
const PER_TURN = 128;

/** A changed document; undefined: it was deleted. */
export type ChangedDocument = readonly [key: string, document: PolicyDocument | undefined];

export class DocumentFeed {
  readonly #post: (message: ToPolicyThread) => void;
  readonly #nextTurn: (run: () => void) => void;
  /** Not handed over yet, the newest version of each. */
  readonly #pending = new Map<string, PolicyDocument | undefined>();
  #scheduled = false;

  constructor(post: (message: ToPolicyThread) => void, nextTurn: (run: () => void) => void) {
    this.#post = post;
    this.#nextTurn = nextTurn;
  }

  /** All documents, for a thread that has just started: it has none. */
  start(documents: Iterable<ChangedDocument>): void {
    this.#pending.clear();
    this.change(documents);
  }

  change(documents: Iterable<ChangedDocument>): void {
    for (const [key, document] of documents) this.#pending.set(key, document);
    if (!this.#scheduled) this.#flush();
  }

  #flush(): void {
    this.#scheduled = false;
    const set: [string, PolicyDocument][] = [];
    const deleted: string[] = [];
    for (const [key, document] of this.#pending) {
      if (set.length + deleted.length === PER_TURN) break;
      this.#pending.delete(key);
      if (document === undefined) deleted.push(key);
      else set.push([key, document]);
    }
    const more = this.#pending.size > 0;
    this.#post({ kind: 'configure', set, deleted, more });
    if (!more) return;
    this.#scheduled = true;
    this.#nextTurn(() => this.#flush());
  }
}
