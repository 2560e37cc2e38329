/** What analysis reads where only a snapshot is known. */
import type { Snapshot } from '../../model/index.ts';
import type { ResourceProblem } from '../../resources/index.ts';
import type { AnalysisInput } from '../mesh/mesh.ts';

export function inputOfSnapshot(snapshot: Snapshot, problems: readonly ResourceProblem[] = []): AnalysisInput {
  return { snapshot, problems, warningsOf: () => [], proxies: [], manifests: [], readsSecrets: true, now: 0 };
}
