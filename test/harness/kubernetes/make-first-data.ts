/**
 * Makes what etcd has after the first start of a control plane, with and without the definitions of the mesh. The stage
 * `kubernetes` of `npm test` does it once; its tests start with copies, which saves each control plane one to two
 * seconds of CPU time.
 */
import { join } from 'node:path';
import { eventually } from '../eventually.ts';
import { tempDir } from '../files.ts';
import { createScope, type Owner } from '../owner.ts';
import { type Kubernetes, startKubernetes } from './control-plane.ts';
import { applyDefinitions } from './deploy.ts';
import { copyData, type FirstData } from './first-data.ts';

interface Definition {
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

/** Until then the API server writes to the definitions. */
async function established({ api }: Kubernetes): Promise<void> {
  const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  await eventually(async () => {
    const { items } = await api.get<{ items: readonly Definition[] }>(path);
    const waiting = items.filter(
      ({ status }) => !status?.conditions?.some(({ type, status: met }) => type === 'Established' && met === 'True'),
    );
    if (waiting.length > 0) throw new Error(`${waiting.length} definitions are not established`);
  });
}

async function ready({ api }: Kubernetes): Promise<void> {
  await eventually(async () => {
    const { status, body } = await api.request({ path: '/readyz' });
    if (status !== 200) throw new Error(`/readyz answered ${status}: ${body}`);
  });
}

/** Makes the data in a folder that ends with its owner; returns the folder. */
export async function makeFirstData(owner: Owner): Promise<string> {
  const folder = await tempDir(owner);
  // Ends here: its API server would go on, and ask for an etcd that has ended, beside all tests.
  const scope = createScope();
  try {
    const cluster = await startKubernetes(scope);
    const { etcd, api, dataFolder } = cluster;
    const copy = (name: FirstData) => copyData(dataFolder, join(folder, name));
    await etcd.stop();
    await copy('empty');
    await etcd.start();
    await ready(cluster);
    await applyDefinitions(api);
    await established(cluster);
    await etcd.stop();
    await copy('definitions');
  } finally {
    await scope.close();
  }
  return folder;
}
