/**
 * Configuration as tests write it, stored in a Kubernetes API server: the other source for tests that are about what
 * the mesh does and not about files.
 */
import type { Owner } from '../../harness/index.ts';
import {
  ApiError,
  type ApiObject,
  discoveryKubeconfig,
  type Kubernetes,
  startKubernetes,
} from '../../harness/kubernetes/index.ts';
import type { ConfigDir, Document } from './config.ts';

/** A field cannot change in place: the object has to be another one. */
const UNPROCESSABLE = 422;

const keyOf = ({ apiVersion, kind, metadata }: ApiObject): string =>
  `${apiVersion}/${kind}/${metadata.namespace ?? ''}/${metadata.name}`;

/** Adds the fields that a cluster requires and a directory does not. */
function complete(document: Document): ApiObject {
  const object = document as ApiObject;
  const spec = (object.spec ?? {}) as Readonly<Record<string, unknown>>;
  if (object.kind === 'Pod') return { ...object, spec: { containers: [{ name: 'app', image: 'none' }], ...spec } };
  if (object.kind === 'Service') {
    const ports = ((spec.ports ?? []) as readonly object[]).map((port) => ({ protocol: 'TCP', ...port }));
    return { ...object, spec: { ...spec, ports } };
  }
  return object;
}

/** Keeps what was applied under each name, as files of a directory do. */
function clusterConfig({ api }: Kubernetes): ConfigDir {
  const applied = new Map<string, readonly ApiObject[]>();
  const namespaces = new Set(['default']);

  const ensureNamespace = async ({ metadata: { namespace } }: ApiObject) => {
    if (namespace === undefined || namespaces.has(namespace)) return;
    await api.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } }]);
    namespaces.add(namespace);
  };
  const applyOne = async (object: ApiObject) => {
    await ensureNamespace(object);
    try {
      await api.apply([object]);
    } catch (error) {
      if (
        !(error instanceof ApiError && error.status === UNPROCESSABLE && /immutable|may not change/.test(error.message))
      )
        throw error;
      await api.delete(object);
      await api.apply([object]);
    }
  };
  const replace = async (name: string, objects: readonly ApiObject[]) => {
    const kept = new Set(objects.map(keyOf));
    const gone = (applied.get(name) ?? []).filter((object) => !kept.has(keyOf(object)));
    applied.set(name, objects);
    for (const object of objects) await applyOne(object);
    for (const object of gone) await api.delete(object);
  };
  return {
    get path(): string {
      throw new Error('the configuration of this mesh is in an API server');
    },
    apply: (name, ...documents) => replace(name, documents.map(complete)),
    write: () => Promise.reject(new Error('the configuration of this mesh is in an API server')),
    async remove(name) {
      if (!applied.has(name)) throw new Error(`nothing was applied as ${name}`);
      await replace(name, []);
      applied.delete(name);
    },
  };
}

export interface ClusterSource {
  readonly config: ConfigDir;
  readonly cluster: Kubernetes;
  /** Of the account that `deploy/rbac.yaml` is for. */
  readonly kubeconfig: string;
}

/** Starts an API server with the mesh's kinds. */
export async function startClusterSource(owner: Owner): Promise<ClusterSource> {
  const cluster = await startKubernetes(owner, { definitions: true });
  return { cluster, config: clusterConfig(cluster), kubeconfig: await discoveryKubeconfig(owner, cluster) };
}
