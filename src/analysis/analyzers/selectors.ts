/** Documents that select workloads: selectors that select none, and documents that select the same workloads. */
import { isEmptySelector } from '../../model/index.ts';
import { type AnalyzedMesh, listed, nameOf, selectorText, type Written } from '../mesh/mesh.ts';
import type { MessageCode } from '../messages/index.ts';
import type { Findings, Workload } from '../types.ts';

type Labels = Readonly<Record<string, string>>;

interface Selecting {
  readonly document: Written;
  /** Undefined: all workloads of the namespace. */
  readonly selector: Labels | undefined;
}

interface Codes {
  readonly sameWorkload: MessageCode;
  readonly withoutSelector: MessageCode;
}

export function* sidecarSelectors(mesh: AnalyzedMesh): Findings {
  const documents = [...mesh.documents('Sidecar')].map((document) => ({
    document,
    selector: selectorOf(document.content.workloadSelector?.labels),
  }));
  yield* overlaps(mesh, documents, { sameWorkload: 'IST0110', withoutSelector: 'IST0111' });
}

export function* telemetrySelectors(mesh: AnalyzedMesh): Findings {
  const documents = [...mesh.documents('Telemetry')].flatMap((document) => {
    const { selector, targetRef, targetRefs } = document.content;
    if (targetRef !== undefined || targetRefs !== undefined) return [];
    return [{ document, selector: selectorOf(selector?.matchLabels) }];
  });
  yield* overlaps(mesh, documents, { sameWorkload: 'IST0159', withoutSelector: 'IST0160' });
}

function selectorOf(labels: Labels | undefined): Labels | undefined {
  return isEmptySelector(labels) ? undefined : labels;
}

function* overlaps(mesh: AnalyzedMesh, all: readonly Selecting[], codes: Codes): Findings {
  for (const [namespace, documents] of Map.groupBy(all, ({ document }) => document.meta.namespace)) {
    yield undefined;
    const whole = documents.filter(({ selector }) => selector === undefined).map(({ document }) => document);
    if (whole.length > 1)
      yield* eachOf(mesh, codes.withoutSelector, whole, 'applies to all workloads of the namespace, too');
    const selecting = documents.filter(({ selector }) => selector !== undefined);
    yield* unselecting(mesh, namespace, selecting);
    yield* sharing(mesh, namespace, selecting, codes.sameWorkload);
  }
}

/** Selectors of documents of the root namespace select in all namespaces. */
function* unselecting(mesh: AnalyzedMesh, namespace: string, documents: readonly Selecting[]): Findings {
  const scope = namespace === mesh.settings.rootNamespace ? '' : namespace;
  for (const { document, selector = {} } of documents) {
    yield undefined;
    if (mesh.workloads.first(scope, selector) !== undefined) continue;
    yield mesh.finding('IST0101', document, `selector: no workload has the labels ${selectorText(selector)}`);
  }
}

/** Documents compared with each other because of one workload. */
const MAX_SHARING = 50;

function* sharing(mesh: AnalyzedMesh, namespace: string, documents: readonly Selecting[], code: MessageCode): Findings {
  const byWorkload = new Map<Workload, Written[]>();
  for (const { document, selector = {} } of documents) {
    for (const workload of mesh.workloads.selected(namespace, selector)) {
      yield undefined;
      const known = byWorkload.get(workload);
      if (known === undefined) byWorkload.set(workload, [document]);
      else if (known.length < MAX_SHARING) known.push(document);
    }
  }
  const reported = new Set<Written>();
  for (const [{ name }, sharers] of byWorkload) {
    if (sharers.length < 2) continue;
    const news = sharers.filter((document) => !reported.has(document));
    for (const document of news) {
      reported.add(document);
      const others = sharers.filter((other) => other !== document).map(nameOf);
      yield mesh.finding(code, document, `workload ${name} is also selected by ${listed(others)}; one of them applies`);
    }
  }
}

function* eachOf(mesh: AnalyzedMesh, code: MessageCode, documents: readonly Written[], rest: string): Findings {
  for (const document of documents) {
    const others = documents.filter((other) => other !== document).map(nameOf);
    yield mesh.finding(code, document, `${listed(others)} ${rest}; one of them applies`);
  }
}
