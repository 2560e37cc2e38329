/** The YAML of the repository's documents, applied to a real API server with the mesh's kinds. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { blocksOf, documentsOf } from '../../tools/docs/markdown.ts';
import {
  type ApiObject,
  applyDefinitions,
  applyGatewayDefinitions,
  conformanceUnavailable,
  kubernetesUnavailable,
  startKubernetes,
} from '../harness/kubernetes/index.ts';

const REPOSITORY = join(import.meta.dirname, '../..');
const skip = kubernetesUnavailable() ?? conformanceUnavailable() ?? false;

/** Objects in fenced blocks, with the document and line of the block. Settings of the mesh are YAML, but no objects. */
function objects(): { readonly where: string; readonly object: ApiObject }[] {
  return [...documentsOf(REPOSITORY)].flatMap(([path, text]) =>
    blocksOf(text)
      .filter(({ language }) => language === 'yaml')
      .flatMap(({ text: yaml, line }) =>
        parseAllDocuments(yaml)
          .map((document) => document.toJS() as ApiObject | null)
          .filter((object): object is ApiObject => object !== null && 'apiVersion' in object)
          // Readers put a value of theirs in the place of `…`.
          .filter((object) => !JSON.stringify(object).includes('…'))
          .map((object) => ({ where: `${path}:${line}: ${object.kind} ${object.metadata.name}`, object })),
      ),
  );
}

test('the API server accepts every object in README and docs', { skip }, async (t) => {
  const cluster = await startKubernetes(t, { definitions: true });
  await applyDefinitions(cluster.api, { istio: true });
  await applyGatewayDefinitions(cluster.api);
  const namespace = await cluster.newNamespace();
  const found = objects();
  assert.ok(found.length > 0);
  const refused: string[] = [];
  for (const { where, object } of found) {
    const sent = { ...object, metadata: { ...object.metadata, namespace } };
    await cluster.api
      .apply([sent], { dryRun: true })
      .catch((error: Error) => refused.push(`${where}: ${error.message}`));
  }
  assert.deepEqual(refused, []);
});
