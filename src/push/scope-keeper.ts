/**
 * Which scopes of the model are in use. A snapshot keeps every scope up to date that was ever asked for; those of namespaces and
 * Sidecars that no view is of any more are released, here and in the workers.
 */
import type { View } from '../generate/types.ts';
import { builtScopes, defaultScopeId, releaseScopes } from '../model/index.ts';
import type { Snapshot } from '../model/types.ts';
import type { ViewTable } from './view-table.ts';

/** Scopes in excess of twice those in use that are left until the next publication. */
const SLACK = 64;

type Views = Pick<ViewTable, 'all' | 'dropped'>;

export class ScopeKeeper {
  readonly #views: Views;
  readonly #onRelease: (ids: readonly string[]) => void;
  /** Views that had been dropped at the last release. */
  #dropped = 0;
  /** Scopes in use then. */
  #used = 0;

  constructor(views: Views, onRelease: (ids: readonly string[]) => void) {
    this.#views = views;
    this.#onRelease = onRelease;
  }

  /** Releases the scopes that no view uses, when views have been dropped since the last time. Costs what the views are. */
  release(snapshot: Snapshot): void {
    if (this.#views.dropped !== this.#dropped) this.#release(snapshot);
  }

  /** Releases them between publications when they are many: proxies that come and go build scopes without one. */
  bound(snapshot: Snapshot): void {
    if (builtScopes(snapshot) > 2 * this.#used + SLACK) this.#release(snapshot);
  }

  #release(snapshot: Snapshot): void {
    const used = new Set<string>();
    for (const { view } of this.#views.all()) used.add(scopeOf(view));
    this.#dropped = this.#views.dropped;
    this.#used = used.size;
    const released = releaseScopes(snapshot, (id) => used.has(id));
    if (released.length > 0) this.#onRelease(released);
  }
}

function scopeOf(view: View): string {
  return view.part === 'gateway' ? defaultScopeId(view.namespace) : view.scope;
}
