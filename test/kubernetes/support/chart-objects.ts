/** The objects that a chart renders. */
import assert from 'node:assert/strict';
import { parseAllDocuments } from 'yaml';
import type { ApiObject } from '../../harness/kubernetes/index.ts';

export const objectsOf = (yaml: string): ApiObject[] =>
  parseAllDocuments(yaml)
    .map((document) => document.toJS() as ApiObject | null)
    .filter((object) => object !== null);

export const ofKind = (objects: readonly ApiObject[], kind: string): ApiObject => {
  const [found] = objects.filter((object) => object.kind === kind);
  assert.ok(found, `no ${kind}`);
  return found;
};
