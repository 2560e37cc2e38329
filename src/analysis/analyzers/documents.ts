/** What validation has found in single documents. */
import { MESH_KINDS } from '../../resources/index.ts';
import type { AnalyzedMesh } from '../mesh/mesh.ts';
import type { Findings } from '../types.ts';

export function* refusedDocuments(mesh: AnalyzedMesh): Findings {
  for (const { id, key, origin, field, message } of mesh.problems) {
    yield undefined;
    const [kind = 'document', namespace = '', name = id] = key?.split('/') ?? [];
    const text = field === '' ? message : `${field}: ${message}`;
    yield mesh.findingOf('IST0106', { kind, namespace, name }, origin, text);
  }
}

export function* documentWarnings(mesh: AnalyzedMesh): Findings {
  for (const kind of MESH_KINDS) {
    for (const document of mesh.documents(kind)) {
      yield undefined;
      for (const { field, message, line } of mesh.warningsOf(document)) {
        const found = mesh.finding('IST0133', document, `${field}: ${message}`);
        yield line === undefined ? found : { ...found, origin: { ...found.origin, line } };
      }
    }
  }
}
