/**
 * Between store and publisher: documents of other APIs become documents of the mesh's own kinds, which are published in
 * their place.
 */
import {
  type AnyResource,
  INGRESS_KINDS,
  type Kind,
  type MeshConfig,
  type MeshUpdate,
  type ObjectAccess,
  type Resource,
  type ResourceKey,
  type ResourceWarning,
  resourceKey,
  SERVICE_API_KINDS,
} from '../../resources/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import { GatewayApiTranslator, IngressTranslator, type Translator, UnservedTargets } from '../../translators/index.ts';
import { gatewayControllerName } from '../config/gateway-controller-name.ts';
import { revisionName } from '../process/revision.ts';
import { warningLog } from './document-log.ts';

export interface Translation {
  /** Returns the update to publish for these changes of the store. */
  apply(update: MeshUpdate): MeshUpdate;
  /** The mesh configuration in force from the next {@link apply} on. */
  configure(mesh: MeshConfig): void;
  /** Whether the mesh serves an Ingress, by the current classes and mesh configuration. */
  readonly servesIngress: (ingress: Resource<'Ingress'>) => boolean;
  /** Whether a Gateway of the Gateway API has a class of the mesh, by the current classes. */
  readonly servesGateway: (gateway: Resource<'KubernetesGateway'>) => boolean;
  /** The warnings about a document that depend on others: those about targets that are not served. */
  readonly warningsOf: (key: ResourceKey) => readonly ResourceWarning[];
  /**
   * Sets the access to the Secrets or ConfigMaps of a name, from the next {@link apply} on.
   * @returns whether derived documents may change
   */
  readonly setAccess: (kind: Kind, name: string, access: ObjectAccess) => boolean;
  /** Undefined when the Gateway API is not served. */
  readonly gatewayApi: GatewayApiTranslator | undefined;
  readonly ingress: IngressTranslator;
  /** Sets the function that is called with the keys of objects whose desired statuses changed, if any. */
  onStatuses(of: 'gatewayApi' | 'ingress', notify: StatusChanges): void;
}

type StatusChanges = (keys: ReadonlySet<ResourceKey>) => void;

/** Documents of other APIs are not part of the mesh. */
const TRANSLATED: ReadonlySet<string> = new Set([...SERVICE_API_KINDS, ...INGRESS_KINDS]);

/** Whether documents of this key are replaced by derived ones. */
export function isTranslated(key: ResourceKey): boolean {
  return TRANSLATED.has(key.slice(0, key.indexOf('/')));
}

/** @param resource a document of the store that is in force */
export function createTranslation(
  settings: DiscoverySettings,
  resource: (key: ResourceKey) => AnyResource | undefined,
): Translation {
  const { serviceApis, domain, configDir, gatewaySecretsRole } = settings;
  const controllerName = gatewayControllerName(settings);
  const revision = revisionName(settings.revision);
  const gatewayApi = serviceApis
    ? new GatewayApiTranslator({
        domain,
        controllerName,
        revision,
        // A directory is read as a whole.
        areReadByName: configDir === '',
        gatewaysReadSecrets: gatewaySecretsRole !== '',
      })
    : undefined;
  const ingress = new IngressTranslator({
    domain,
    namespace: ingressNamespace(settings),
    resource,
    onWarnings: warningLog(),
  });
  const targets = new UnservedTargets({
    controllerName: serviceApis ? controllerName : undefined,
    resource,
    onWarnings: warningLog(),
  });
  const translators: readonly Translator[] = gatewayApi === undefined ? [ingress] : [gatewayApi, ingress];
  const notify: Record<'gatewayApi' | 'ingress', StatusChanges> = { gatewayApi: () => {}, ingress: () => {} };
  const notifyOfStatuses = (): void => {
    const [ofGatewayApi, ofIngress] = [gatewayApi?.takeStatusChanges(), ingress.takeStatusChanges()];
    if (ofGatewayApi !== undefined && ofGatewayApi.size > 0) notify.gatewayApi(ofGatewayApi);
    if (ofIngress.size > 0) notify.ingress(ofIngress);
  };
  return {
    gatewayApi,
    ingress,
    onStatuses(of, next) {
      notify[of] = next;
    },
    apply(update) {
      const derived = translators.flatMap((translator) => translator.apply(update.changes));
      notifyOfStatuses();
      targets.apply(update.changes);
      const own = update.changes.filter(({ key }) => !isTranslated(key));
      return { ...update, changes: [...own, ...derived] };
    },
    warningsOf: (key) => targets.warningsOf(key),
    configure: (mesh) => ingress.configure(mesh),
    setAccess: (kind, name, access) => gatewayApi?.setAccess(kind, name, access) ?? false,
    servesIngress: (document) => ingress.serves(document),
    servesGateway: ({ content }) => {
      const found = resource(resourceKey('GatewayClass', '', content.gatewayClassName));
      return found?.kind === 'GatewayClass' && found.content.controllerName === controllerName;
    },
  };
}

/** The namespace of the gateways that serve Ingresses. */
export function ingressNamespace(settings: DiscoverySettings): string {
  return settings.orchIngressNamespace || settings.ingressGatewayNamespace || settings.namespace;
}
