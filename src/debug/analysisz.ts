/** `/debug/analysisz`: what analysis finds in the configuration in force. */
import { type ShownFinding, shownFinding } from '../analysis/index.ts';
import { Stepwise } from './json-pieces.ts';
import type { Viewed } from './viewed.ts';

/** `?namespace=`, `?kind=` and `?code=` filter; `omitted` counts the findings beyond the limits. */
export function analysisz(mesh: Viewed, query: URLSearchParams): Stepwise {
  const [namespace, kind, code] = ['namespace', 'kind', 'code'].map((name) => query.get(name) || undefined);
  const wanted = ({ resource, ...finding }: ShownFinding): boolean =>
    (namespace ?? resource.namespace) === resource.namespace &&
    (kind ?? resource.kind) === resource.kind &&
    (code ?? finding.code) === finding.code;
  return new Stepwise(found(mesh, wanted));
}

function* found(mesh: Viewed, wanted: (finding: ShownFinding) => boolean): Generator<void, object> {
  const { findings: all, omitted } = mesh.analysis();
  const findings: ShownFinding[] = [];
  for (const finding of all) {
    const each = finding && shownFinding(finding);
    if (each !== undefined && wanted(each)) findings.push(each);
    yield;
  }
  return { findings, omitted: omitted() };
}
