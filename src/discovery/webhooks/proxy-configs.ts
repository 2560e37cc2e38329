/**
 * The ProxyConfigs in force, by namespace, for injection, and warnings about those that have less effect than their
 * authors may expect.
 */
import { compareMeta, isEmptySelector, type Snapshot } from '../../model/index.ts';
import {
  type AnyResource,
  keyOf,
  type Resource,
  type ResourceKey,
  type ResourceWarning,
} from '../../resources/index.ts';
import type { ProxyConfigDocument, ProxyConfigDocuments, ProxyConfigs } from '../../webhooks/index.ts';

/** Documents of a namespace with a selector that count: reviews of all its Pods look at each of them. */
export const MAX_SELECTING = 20;

type Document = Resource<'ProxyConfig'>;
type Published = Pick<Snapshot, 'resources' | 'settings'>;

function tableOf(snapshot: Published) {
  return snapshot.resources('ProxyConfig');
}

/** The documents of one namespace, each list in order of age. */
interface Documents {
  readonly general: readonly Document[];
  readonly selecting: readonly Document[];
}

const NONE: Documents = { general: [], selecting: [] };

export class ProxyConfigTable {
  readonly #onWarnings: (key: ResourceKey, resource: AnyResource) => void;
  #table: ReturnType<typeof tableOf> | undefined;
  #rootNamespace = '';
  #namespaces: ReadonlyMap<string, Documents> = new Map();
  /** Made when a Pod of the namespace is created first. Namespaces without documents of their own have those of ''. */
  readonly #inForce = new Map<string, ProxyConfigDocuments>();
  #warnings: ReadonlyMap<ResourceKey, string> = new Map();

  /** @param onWarnings called with a document whose warnings have changed; `resource` has the current ones */
  constructor(onWarnings: (key: ResourceKey, resource: AnyResource) => void) {
    this.#onWarnings = onWarnings;
  }

  /** Called with each published snapshot. */
  published(snapshot: Published): void {
    const table = tableOf(snapshot);
    if (table === this.#table) return;
    this.#table = table;
    this.#rootNamespace = snapshot.settings.rootNamespace;
    const sorted = [...table.values()].sort((a, b) => compareMeta(a.meta, b.meta));
    const byNamespace = Map.groupBy(sorted, ({ meta }) => meta.namespace);
    this.#namespaces = new Map([...byNamespace].map(([namespace, all]) => [namespace, documentsOf(all)]));
    this.#inForce.clear();
    this.#warn();
  }

  /** The documents for Pods of a namespace; undefined: the mesh has none. Of equal documents, the same object. */
  of(namespace: string): ProxyConfigs | undefined {
    if (this.#namespaces.size === 0) return undefined;
    const own = this.#namespaces.get(namespace);
    // Callers may name any namespace: only those with documents are kept.
    const key = own === undefined ? '' : namespace;
    const root = namespace === this.#rootNamespace ? NONE : this.#namespaces.get(this.#rootNamespace);
    const documents = this.#inForce.get(key) ?? inForce(root ?? NONE, own ?? NONE);
    this.#inForce.set(key, documents);
    return { namespace, documents };
  }

  warningsOf(key: ResourceKey): readonly ResourceWarning[] {
    const message = this.#warnings.get(key);
    return message === undefined ? [] : [{ field: 'spec', message }];
  }

  #warn(): void {
    const before = this.#warnings;
    const now = new Map<ResourceKey, string>();
    const changed: Document[] = [];
    for (const [namespace, documents] of this.#namespaces) {
      for (const [document, message] of ineffective(documents, namespace === this.#rootNamespace)) {
        const key = keyOf(document);
        now.set(key, message);
        if (before.get(key) !== message) changed.push(document);
      }
    }
    this.#warnings = now;
    for (const document of changed) {
      const key = keyOf(document);
      this.#onWarnings(key, { ...document, warnings: this.warningsOf(key) });
    }
  }
}

function documentsOf(all: readonly Document[]): Documents {
  const isGeneral = ({ content }: Document): boolean => isEmptySelector(content.selector?.matchLabels);
  return { general: all.filter(isGeneral), selecting: all.filter((each) => !isGeneral(each)) };
}

function inForce(ofRoot: Documents, { general, selecting }: Documents): ProxyConfigDocuments {
  return {
    general: [ofRoot.general, general].flatMap(([first]) => (first === undefined ? [] : documentOf(first))),
    selecting: selecting.slice(0, MAX_SELECTING).map(documentOf),
    warnings: [
      ...general.slice(1, 2).map((each) => `${titleOf(each)}: no effect, because an older one is for all Pods`),
      ...(selecting.length > MAX_SELECTING
        ? [`of ${selecting.length} ProxyConfigs with a selector, only the ${MAX_SELECTING} oldest take effect`]
        : []),
    ],
  };
}

function* ineffective(
  { general, selecting }: Documents,
  isRoot: boolean,
): Generator<readonly [document: Document, message: string]> {
  const [first, ...others] = general;
  const whole = isRoot ? 'the mesh' : 'the namespace';
  for (const each of others)
    yield [each, `no effect, because the older ${first && titleOf(first)} is for all Pods of ${whole}`];
  for (const each of selecting.slice(MAX_SELECTING))
    yield [each, `no effect, because the namespace has ${MAX_SELECTING} older ProxyConfigs with a selector`];
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
