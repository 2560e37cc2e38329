/** Runs the analyzers over a mesh, with limits on what is found. */
import { ANALYZERS } from './analyzers/index.ts';
import { type AnalysisInput, AnalyzedMesh } from './mesh/mesh.ts';
import type { Finding } from './types.ts';

/** Findings of one code about one document; more of them say nothing new. */
const MAX_PER_DOCUMENT = 20;
/** Findings about the documents of one namespace, so that those of one namespace do not displace others. */
export const MAX_OF_NAMESPACE = 1000;
/** Findings in all. */
export const MAX_FINDINGS = 10_000;

export interface Analysis {
  /** Undefined between findings, where the work may be interrupted. */
  readonly findings: Generator<Finding | undefined, void>;
  /** The number of findings so far that were left out because of the limits. */
  readonly omitted: () => number;
}

/**
 * The findings in a mesh, as somebody may read them who sees these namespaces. The work is done while they are read.
 */
export function analyze(input: AnalysisInput, sees: (namespace: string) => boolean = () => true): Analysis {
  const limits = new Limits();
  function* readable(): Analysis['findings'] {
    const mesh = new AnalyzedMesh(input);
    yield* mesh.index();
    for (const analyzer of ANALYZERS) {
      for (const finding of analyzer(mesh)) {
        yield finding !== undefined && mayRead(finding, sees) && limits.take(finding) ? finding : undefined;
      }
    }
  }
  return { findings: readable(), omitted: () => limits.omitted };
}

/** A finding that tells something about other namespaces, also by its absence, is for those who see all of them. */
function mayRead({ resource, reveals = [] }: Finding, sees: (namespace: string) => boolean): boolean {
  return sees(resource.namespace) && reveals.every(sees);
}

class Limits {
  omitted = 0;
  #total = 0;
  readonly #counts = new Map<string, number>();

  take({ code, resource: { kind, namespace, name } }: Finding): boolean {
    const ofDocument = `${code}/${kind}/${namespace}/${name}`;
    const [inDocument, inNamespace] = [ofDocument, namespace].map((id) => this.#counts.get(id) ?? 0) as [
      number,
      number,
    ];
    if (inDocument >= MAX_PER_DOCUMENT || inNamespace >= MAX_OF_NAMESPACE || this.#total >= MAX_FINDINGS) {
      this.omitted++;
      return false;
    }
    this.#counts.set(ofDocument, inDocument + 1);
    this.#counts.set(namespace, inNamespace + 1);
    this.#total++;
    return true;
  }
}
