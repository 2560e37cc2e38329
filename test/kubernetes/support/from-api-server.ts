/** Runs a file of `test/e2e` with its configuration in a Kubernetes API server instead of a directory. */
import { test } from 'node:test';
import { kubernetesUnavailable } from '../../harness/kubernetes/index.ts';
import { inOwnNetwork } from '../../harness/netns.ts';

/** `name` is the file's name without its extension. */
export async function runFromApiServer(name: string): Promise<void> {
  const skip = kubernetesUnavailable() ?? (inOwnNetwork() ? undefined : 'needs a network namespace of its own (root)');
  if (skip !== undefined) return void test(`${name}, from an API server`, { skip }, () => undefined);
  process.env.MESH_TEST_SOURCE = 'kubernetes';
  await import(`../../e2e/${name}.test.ts`);
}
