/**
 * Between store and publisher: documents of other APIs become documents of the mesh's own kinds, which are published in
 * their place.
 */
import {
  type AnyResource,
  INGRESS_KINDS,
  type MeshConfig,
  type Resource,
  type ResourceKey,
  resourceKey,
  SERVICE_API_KINDS,
} from '../resources/index.ts';
import type { DiscoverySettings } from '../settings/index.ts';
import type { TakenChanges } from '../store/index.ts';
import { CONTROLLER_NAME, GatewayApiTranslator, IngressTranslator, type Translator } from '../translators/index.ts';
import { warningLog } from './document-log.ts';

export interface Translation {
  /** The changes to publish for these changes of the store. */
  apply(taken: TakenChanges): TakenChanges;
  /** The mesh configuration in force from the next {@link apply} on. */
  configure(mesh: MeshConfig): void;
  /** Whether an Ingress is of the mesh, as the classes and the mesh configuration are now. */
  readonly servesIngress: (ingress: Resource<'Ingress'>) => boolean;
  /** Whether a Gateway of the Gateway API is of a class of the mesh, as the classes are now. */
  readonly servesGateway: (gateway: Resource<'KubernetesGateway'>) => boolean;
  /** Undefined when the Gateway API is not served. */
  readonly gatewayApi: GatewayApiTranslator | undefined;
  /** Sets who is notified of the keys of objects of the Gateway API whose desired statuses changed, if any. */
  onStatuses(notify: (keys: ReadonlySet<ResourceKey>) => void): void;
}

/** Documents of other APIs are no part of the mesh. */
const TRANSLATED: ReadonlySet<string> = new Set([...SERVICE_API_KINDS, ...INGRESS_KINDS]);

/** @param resource a document of the store that is in force */
export function createTranslation(
  settings: DiscoverySettings,
  resource: (key: ResourceKey) => AnyResource | undefined,
): Translation {
  const { serviceApis, domain } = settings;
  const gatewayApi = serviceApis ? new GatewayApiTranslator({ domain }) : undefined;
  const ingress = new IngressTranslator({
    domain,
    namespace: ingressNamespace(settings),
    resource,
    onWarnings: warningLog(),
  });
  const translators: readonly Translator[] = gatewayApi === undefined ? [ingress] : [gatewayApi, ingress];
  let notify: (keys: ReadonlySet<ResourceKey>) => void = () => {};
  return {
    gatewayApi,
    onStatuses(next) {
      notify = next;
    },
    apply(taken) {
      const derived = translators.flatMap((translator) => translator.apply(taken.changes));
      const statuses = gatewayApi?.takeStatusChanges();
      if (statuses !== undefined && statuses.size > 0) notify(statuses);
      const own = taken.changes.filter(({ key }) => !TRANSLATED.has(key.slice(0, key.indexOf('/'))));
      return { changes: [...own, ...derived], eventTime: taken.eventTime };
    },
    configure: (mesh) => ingress.configure(mesh),
    servesIngress: (document) => ingress.serves(document),
    servesGateway: ({ content }) => {
      const found = resource(resourceKey('GatewayClass', '', content.gatewayClassName));
      return found?.kind === 'GatewayClass' && found.content.controllerName === CONTROLLER_NAME;
    },
  };
}

/** The namespace of the gateways that serve Ingresses. */
export function ingressNamespace(settings: DiscoverySettings): string {
  return settings.orchIngressNamespace || settings.ingressGatewayNamespace || settings.namespace;
}
