/** The source of a cluster in this process, with a store. */
import { systemClock } from '../../../src/core/clock.ts';
import { type ClusterAccess, Connection, readKubeconfig } from '../../../src/kubernetes/index.ts';
import { createKubernetesSource, type KubernetesSourceOptions } from '../../../src/sources/index.ts';
import { createStore } from '../../../src/store/index.ts';
import type { Owner } from '../../harness/index.ts';
import type { Credential, Kubernetes } from '../../harness/kubernetes/index.ts';

/** Starts the source. It ends with its owner. */
export async function followSource(
  owner: Owner,
  cluster: Kubernetes,
  options: Partial<KubernetesSourceOptions> & {
    readonly credential?: Credential;
    readonly access?: ClusterAccess;
  } = {},
) {
  const {
    credential,
    access = await readKubeconfig(await cluster.kubeconfig(owner, credential)),
    ...changes
  } = options;
  const lines: string[] = [];
  const note = (message: string): void => void lines.push(message);
  const connection = new Connection({ access, clock: systemClock, random: Math.random, userAgent: 'test' });
  const source = createKubernetesSource({
    cluster: 'here',
    connection,
    log: { debug: () => {}, info: note, warn: note, error: note },
    clock: systemClock,
    resyncMs: 60_000,
    namespaces: [],
    useEndpointSlice: true,
    meshKinds: true,
    ...changes,
  });
  const store = createStore({
    sources: [source],
    cluster: 'here',
    appNamespaces: [],
    rootNamespace: 'mesh-system',
    onRefused: () => {},
    onResolved: () => {},
  });
  /** Every change of what is in force, in order: `+key` or `-key`. */
  const history: string[] = [];
  const noteChanges = ({ changed }: { readonly changed: ReadonlySet<string> }): void => {
    for (const key of changed) history.push(`${store.get(key) === undefined ? '-' : '+'}${key}`);
  };
  /** Kinds in the order of their lists. */
  const lists: string[] = [];
  source.start({
    apply: (events) => noteChanges(store.apply(source.id, events)),
    replace: (list) => {
      lists.push(list.kinds?.join() ?? '');
      noteChanges(store.replace(source.id, list));
    },
    changing: () => {},
  });
  owner.after(async () => {
    await source.close();
    connection.close();
  });
  return { source, store, lines, lists, changes: history, has: (key: string) => store.get(key) !== undefined };
}
