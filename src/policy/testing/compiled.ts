/** Compiles documents of the policy component from YAML, for tests. */
import assert from 'node:assert/strict';
import { parseAllDocuments } from 'yaml';
import { parseResource } from '../../resources/index.ts';
import { compilePolicy } from '../config/compile.ts';
import { policyDocument } from '../config/documents.ts';
import type { PolicyConfig, PolicyDocument, PolicyOptions } from '../types.ts';

export const ROOT = 'mesh-system';

/** Documents without apiVersion and namespace: `config.mesh.io/v1alpha2`, and the configuration namespace. */
export function documentsOf(text: string): PolicyDocument[] {
  return parseAllDocuments(text).map((each) => {
    const { kind, metadata, spec } = each.toJS() as { kind: string; metadata: object; spec: unknown };
    const raw = { apiVersion: 'config.mesh.io/v1alpha2', kind, metadata: { namespace: ROOT, ...metadata }, spec };
    const parsed = parseResource(raw, { source: 'test' }, () => undefined);
    assert.ok('resource' in parsed, JSON.stringify(parsed));
    const document = policyDocument(parsed.resource);
    assert.ok(document !== undefined);
    return document;
  });
}

export function compiled(text: string, language?: PolicyOptions['language']): PolicyConfig {
  return compilePolicy(documentsOf(text), { language, configNamespace: ROOT });
}
