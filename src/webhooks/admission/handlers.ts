/** The code that decides about reviews, connected. */
import { apiVersionsOf, MESH_KINDS } from '../../resources/index.ts';
import { createInjector } from '../injection/index.ts';
import { jsonPatch } from '../json-patch/index.ts';
import { candidateOf, validateRequest } from '../validation/index.ts';
import { Reviewer } from './reviewer.ts';

/** `group/kind` of the mesh's kinds, under all names of their groups. */
const KNOWN: ReadonlySet<string> = new Set(
  MESH_KINDS.flatMap((kind) => apiVersionsOf(kind).map((apiVersion) => `${apiVersion.split('/', 1)[0]}/${kind}`)),
);

/** One for each worker. */
export function createReviewer(): Reviewer {
  return new Reviewer({
    createInjector,
    diff: jsonPatch,
    validate: validateRequest,
    candidate: candidateOf,
    isKnownKind: (group, kind) => KNOWN.has(`${group}/${kind}`),
  });
}
