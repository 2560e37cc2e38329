/** The scopes of one state: those that are kept up to date, and others on demand. */
import { InternalError } from '../../core/errors.ts';
import { isEmptySelector, type Labels, labelsMatch } from '../common/labels.ts';
import type { MeshState } from '../rules/mesh-state.ts';
import type { Scope, SidecarResource } from '../types/types.ts';
import { type BuiltScope, buildScope, planOf } from './scope-build.ts';
import { type ScopeIndex, withoutScope, withScope } from './scope-index.ts';
import { defaultScopeId, sidecarScopeId } from './scope-plan.ts';

/**
 * The number of scopes built on demand that are kept per state, because a scope is usually read several times in
 * sequence.
 */
const MAX_OTHERS = 16;

export class MeshScopes {
  readonly #state: MeshState;
  #scopeIndex: ScopeIndex;

  constructor(state: MeshState, scopeIndex: ScopeIndex) {
    this.#state = state;
    this.#scopeIndex = scopeIndex;
  }

  get scopeIndex(): ScopeIndex {
    return this.#scopeIndex;
  }

  keep(id: string): void {
    this.#scopeIndex = withScope(this.#scopeIndex, id, this.#built(id));
  }

  drop(id: string): void {
    this.#scopeIndex = withoutScope(this.#scopeIndex, id);
  }

  /** Undefined for a Sidecar that does not exist, and for invalid ids. */
  get(id: string): Scope | undefined {
    return this.#built(id)?.scope;
  }

  /** The scope of a namespace's proxies without a Sidecar, and of its gateways. */
  ofNamespace(namespace: string): Scope {
    const scope = this.get(defaultScopeId(namespace));
    if (scope === undefined) throw new InternalError(`no scope of namespace ${namespace}`);
    return scope;
  }

  #built(id: string): BuiltScope | undefined {
    return this.#scopeIndex.built.get(id) ?? this.#other(id);
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
