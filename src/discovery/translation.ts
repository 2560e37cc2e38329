/**
 * Between store and publisher: documents of other APIs become documents of the mesh's own kinds, which are published in
 * their place.
 */
import { type ResourceKey, SERVICE_API_KINDS } from '../resources/index.ts';
import type { DiscoverySettings } from '../settings/index.ts';
import type { TakenChanges } from '../store/index.ts';
import { GatewayApiTranslator, type Translator } from '../translators/index.ts';

export interface Translation {
  /** The changes to publish for these changes of the store. */
  apply(taken: TakenChanges): TakenChanges;
  /** Undefined when the Gateway API is not served. */
  readonly gatewayApi: GatewayApiTranslator | undefined;
  /** Sets who is notified of the keys of objects of the Gateway API whose desired statuses changed, if any. */
  onStatuses(notify: (keys: ReadonlySet<ResourceKey>) => void): void;
}

const SERVICE_API: ReadonlySet<string> = new Set(SERVICE_API_KINDS);

export function createTranslation({ serviceApis, domain }: DiscoverySettings): Translation {
  const gatewayApi = serviceApis ? new GatewayApiTranslator({ domain }) : undefined;
  const translators: readonly Translator[] = gatewayApi === undefined ? [] : [gatewayApi];
  let notify: (keys: ReadonlySet<ResourceKey>) => void = () => {};
  return {
    gatewayApi,
    onStatuses(next) {
      notify = next;
    },
    apply(taken) {
      if (translators.length === 0) return taken;
      const derived = translators.flatMap((translator) => translator.apply(taken.changes));
      const statuses = gatewayApi?.takeStatusChanges();
      if (statuses !== undefined && statuses.size > 0) notify(statuses);
      // Documents of other APIs are no part of the mesh.
      const own = taken.changes.filter(({ key }) => !SERVICE_API.has(key.slice(0, key.indexOf('/'))));
      return { changes: [...own, ...derived], eventTime: taken.eventTime };
    },
  };
}
