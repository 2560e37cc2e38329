/** The ProxyConfigs in force, by namespace, for injection. */
import { compareMeta, isEmptySelector, type Snapshot } from '../../model/index.ts';
import type { Resource } from '../../resources/index.ts';
import type { ProxyConfigDocument, ProxyConfigs } from '../../webhooks/index.ts';

/** Documents of a namespace with a selector that count: all of them are sent with each review. */
export const MAX_SELECTING = 20;

type Document = Resource<'ProxyConfig'>;
type Table = ReturnType<typeof tableOf>;

function tableOf(snapshot: Pick<Snapshot, 'resources'>) {
  return snapshot.resources('ProxyConfig');
}

/**
 * @param snapshot the current one
 * @returns the documents for Pods of a namespace; undefined where the mesh has none
 */
export function proxyConfigsOf(
  snapshot: () => Pick<Snapshot, 'resources' | 'settings'>,
): (namespace: string) => ProxyConfigs | undefined {
  let known: { readonly table: Table; readonly byNamespace: ReadonlyMap<string, readonly Document[]> } | undefined;
  return (namespace) => {
    const current = snapshot();
    const table = tableOf(current);
    if (table.size === 0) return undefined;
    if (known?.table !== table) known = { table, byNamespace: byNamespace(table) };
    const documents = known.byNamespace.get(namespace) ?? [];
    const { rootNamespace } = current.settings;
    const ofRoot = namespace === rootNamespace ? [] : (known.byNamespace.get(rootNamespace) ?? []);
    return { namespace, ...inForce(ofRoot, documents) };
  };
}

function byNamespace(table: Table): ReadonlyMap<string, readonly Document[]> {
  const sorted = [...table.values()].sort((a, b) => compareMeta(a.meta, b.meta));
  return Map.groupBy(sorted, ({ meta }) => meta.namespace);
}

function inForce(ofRoot: readonly Document[], own: readonly Document[]): Omit<ProxyConfigs, 'namespace'> {
  const isGeneral = ({ content }: Document): boolean => isEmptySelector(content.selector?.matchLabels);
  const [root, namespace] = [ofRoot.filter(isGeneral), own.filter(isGeneral)];
  const selecting = own.filter((each) => !isGeneral(each));
  return {
    general: [root, namespace].flatMap(([first]) => (first === undefined ? [] : documentOf(first))),
    selecting: selecting.slice(0, MAX_SELECTING).map(documentOf),
    warnings: [
      ...namespace.slice(1, 2).map((each) => `${titleOf(each)}: no effect, because an older one is for all Pods`),
      ...(selecting.length > MAX_SELECTING
        ? [`of ${selecting.length} ProxyConfigs with a selector, the ${MAX_SELECTING} oldest count`]
        : []),
    ],
  };
}

function titleOf({ meta }: Document): string {
  return `ProxyConfig ${meta.namespace}/${meta.name}`;
}

function documentOf(document: Document): ProxyConfigDocument {
  const { selector, concurrency, environmentVariables, image } = document.content;
  return {
    title: titleOf(document),
    labels: selector?.matchLabels ?? {},
    config: {
      ...(concurrency !== undefined && { concurrency }),
      ...(environmentVariables !== undefined && { proxyMetadata: environmentVariables }),
      ...(image !== undefined && { image }),
    },
  };
}
