/** What is wrong with the documents of the policy component as a whole: expressions, references. */
import { compilePolicySteps, type PolicyDocument, policyDocument } from '../../policy/index.ts';
import { type AnyResource, POLICY_KINDS } from '../../resources/index.ts';
import type { AnalyzedMesh } from '../mesh/mesh.ts';
import type { Findings } from '../types.ts';

export function* policyDocuments(mesh: AnalyzedMesh): Findings {
  const documents: PolicyDocument[] = [];
  for (const kind of POLICY_KINDS) {
    for (const resource of mesh.documents(kind)) {
      yield undefined;
      const document = policyDocument(resource as unknown as AnyResource);
      if (document !== undefined) documents.push(document);
    }
  }
  if (documents.length === 0) return;
  const options = { language: mesh.policyLanguage, configNamespace: mesh.settings.rootNamespace };
  const { problems } = yield* compilePolicySteps(documents, options);
  for (const { kind, namespace, name, origin, field, message, reveals } of problems) {
    const text = field === '' ? message : `${field}: ${message}`;
    yield mesh.findingOf('IST0133', { kind, namespace, name }, origin, text, reveals);
  }
}
