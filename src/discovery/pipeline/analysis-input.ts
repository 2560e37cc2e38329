/** What analysis reads of the running program. */
import type { AnalysisInput } from '../../analysis/index.ts';
import type { Engine } from '../../push/index.ts';
import type { ResourceKey, ResourceWarning } from '../../resources/index.ts';
import type { Store } from '../../store/index.ts';

export interface AnalyzedParts {
  readonly store: Pick<Store, 'problems'>;
  readonly engine: Pick<Engine, 'snapshot'>;
  readonly warningsOf: (key: ResourceKey) => readonly ResourceWarning[];
  /** Whether the Secrets that Gateways name are read; gateways may read them themselves instead. */
  readonly readsSecrets: boolean;
  /** From `MESH_LANG`. */
  readonly policyLanguage: AnalysisInput['policyLanguage'];
}

/** @param proxies connected proxies, which count as workloads */
export function analysisInput(
  { store, engine, warningsOf, readsSecrets, policyLanguage }: AnalyzedParts,
  proxies: AnalysisInput['proxies'],
): AnalysisInput {
  const now = Date.now();
  return {
    snapshot: engine.snapshot,
    problems: store.problems(),
    warningsOf,
    proxies,
    manifests: [],
    readsSecrets,
    policyLanguage,
    now,
  };
}
