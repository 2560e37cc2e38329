/** The scopes of one state: those that are kept up to date, and any other when it is asked for. */
import { isEmptySelector, type Labels, labelsMatch } from './labels.ts';
import type { MeshState } from './mesh-state.ts';
import { type BuiltScope, buildScope, planOf } from './scope-build.ts';
import { type ScopeIndex, withoutScope, withScope } from './scope-index.ts';
import { defaultScopeId, sidecarScopeId } from './scope-plan.ts';
import type { Scope, SidecarResource } from './types.ts';

/** Scopes that nobody keeps and that are remembered, for each state: several questions about one come in a row. */
const MAX_OTHERS = 16;

export class MeshScopes {
  readonly #state: MeshState;
  #book: ScopeIndex;

  constructor(state: MeshState, book: ScopeIndex) {
    this.#state = state;
    this.#book = book;
  }

  /** Those that are kept. */
  get book(): ScopeIndex {
    return this.#book;
  }

  keep(id: string): void {
    this.#book = withScope(this.#book, id, this.#built(id));
  }

  drop(id: string): void {
    this.#book = withoutScope(this.#book, id);
  }

  /** Undefined for a Sidecar that does not exist, and for what is no id. */
  get(id: string): Scope | undefined {
    return this.#built(id)?.scope;
  }

  /** Of proxies of a namespace for which no Sidecar is, and of its gateways. */
  ofNamespace(namespace: string): Scope {
    const scope = this.get(defaultScopeId(namespace));
    if (scope === undefined) throw new TypeError(`no scope of namespace ${namespace}`);
    return scope;
  }

  #built(id: string): BuiltScope | undefined {
    return this.#book.built.get(id) ?? this.#other(id);
  }

  #other(id: string): BuiltScope | undefined {
    const state = this.#state;
    const others = state.memos.weak<MeshState, Map<string, BuiltScope>>('scopes').get(state, () => new Map());
    const known = others.get(id);
    if (known !== undefined) return known;
    const plan = planOf(state, id);
    if (plan === undefined) return undefined;
    const built = buildScope(state, plan);
    const [oldest] = others.keys();
    if (others.size >= MAX_OTHERS && oldest !== undefined) others.delete(oldest);
    others.set(id, built);
    return built;
  }
}

const NO_LABELS: Labels = {};

/** Id of the scope of a namespace's proxies with these labels: see `Snapshot.scopeOf`. */
export function scopeIdOf(state: MeshState, namespace: string, labels: Labels): string {
  const own = state.sidecars.get(namespace) ?? [];
  const selected = own.find((sidecar) => !isForAll(sidecar) && labelsMatch(selectorOf(sidecar), labels));
  const root = state.sidecars.get(state.settings.rootNamespace);
  const sidecar = selected ?? own.find(isForAll) ?? root?.find(isForAll);
  return sidecar === undefined ? defaultScopeId(namespace) : sidecarScopeId(namespace, sidecar);
}

function selectorOf({ content }: SidecarResource): Labels {
  return content.workloadSelector?.labels ?? NO_LABELS;
}

function isForAll(sidecar: SidecarResource): boolean {
  return isEmptySelector(selectorOf(sidecar));
}
