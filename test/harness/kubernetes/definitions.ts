/** The mesh's kinds in an API server: the CustomResourceDefinitions of `deploy/crds`. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { KubernetesApi } from './api.ts';

const FOLDER = join(import.meta.dirname, '../../../deploy/crds');

export interface DefinitionOptions {
  /** Applies those of the `istio.io` groups as well. Default false. */
  readonly istio?: boolean;
}

export async function applyDefinitions(api: KubernetesApi, { istio = false }: DefinitionOptions = {}): Promise<void> {
  const files = globSync(istio ? '**/*.yaml' : '*.yaml', { cwd: FOLDER }).sort();
  await Promise.all(files.map((file) => api.apply(readFileSync(join(FOLDER, file), 'utf8'))));
}
