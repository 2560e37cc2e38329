/** JSON Patch: the answer of a mutating webhook. */
export { jsonPatch } from './json-patch.ts';
