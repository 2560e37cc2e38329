/**
 * Clusters without endpoints, for names that Envoy has asked for and that do not exist. Envoy does not ask again for a
 * cluster that was answered as missing: each further connection would wait for the timeout of its TCP proxy. With such
 * a cluster it is closed at once, as by a proxy that has everything; and the cluster is updated when it is created.
 */
import type { Memos, WeakMemo } from '../../core/memo.ts';
import { envoy } from '../../protobuf/index.ts';
import { type Bundle, contentVersion, emptyBundle, encodeResource, nextBundle } from '../../push/index.ts';
import type { NameSet } from '../protocol/index.ts';

const { Cluster } = envoy.config.cluster.v3;

/** In place of the key of a view: a space is in none. */
const VIEW = 'absent clusters';

export class AbsentClusters {
  readonly #bundles: WeakMemo<NameSet, Bundle>;

  constructor(memos: Memos) {
    this.#bundles = memos.weak('clusters that do not exist');
  }

  of(names: NameSet): Bundle {
    return this.#bundles.get(names, () =>
      nextBundle(
        emptyBundle('cds', VIEW),
        names.sorted().map((name) => {
          // Its type is STATIC, the default.
          const message = Cluster.encode({ name }).finish();
          return [name, encodeResource('cds', name, contentVersion(message), message, [])] as const;
        }),
      ),
    );
  }
}
