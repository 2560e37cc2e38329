/** Parses documents for tests, and says which outcome was expected. */
import assert from 'node:assert/strict';
import { parse as parseYaml } from 'yaml';
import type { AnyResource, ResourceProblem } from '../kinds/types.ts';
import { parseResource } from '../parsing/parse.ts';

/** Origin of the documents. */
export const ORIGIN = { source: 'directory', file: 'a.yaml', line: 1 };

/** The resource that a YAML document gives; fails when there is a problem. */
export function read(yaml: string): AnyResource {
  const parsed = parseResource(parseYaml(yaml), ORIGIN, () => undefined);
  assert.ok('resource' in parsed, JSON.stringify(parsed));
  return parsed.resource;
}

/** The problem that a YAML document is refused with; fails when there is none. */
export function problemOf(yaml: string): ResourceProblem {
  const parsed = parseResource(parseYaml(yaml), ORIGIN, () => undefined);
  assert.ok('problem' in parsed, `expected a problem, got ${JSON.stringify(parsed)}`);
  return parsed.problem;
}

/** A document of a kind with a spec, as YAML. */
export const mesh = (kind: string, spec: string, api = 'networking.mesh.io/v1alpha3') =>
  `apiVersion: ${api}\nkind: ${kind}\nmetadata: {name: x, namespace: ns}\nspec: ${spec}`;
