/** JSON Patch: the response of a mutating webhook. */
export { jsonPatch } from './json-patch.ts';
