/**
 * Policies, EnvoyFilters and Telemetry documents for Gateways that this control plane does not serve, such as waypoints
 * of another one. They are not enforced there, and they never apply to other workloads instead: a document that allows
 * something in one place must not allow it in another. Their authors get a warning, because there is no other sign of
 * that.
 */
import {
  type AnyResource,
  GATEWAY_GROUP,
  type ResourceChange,
  type ResourceKey,
  type ResourceWarning,
  resourceKey,
  type TargetRef,
} from '../../resources/index.ts';
import { GATEWAY_NAME_LABEL } from './routes/served-hosts.ts';

const KINDS = ['AuthorizationPolicy', 'EnvoyFilter', 'RequestAuthentication', 'Telemetry'] as const;
type Policy = Extract<AnyResource, { readonly kind: (typeof KINDS)[number] }>;

export interface UnservedTargetsOptions {
  /** The controller name of GatewayClasses that are served; undefined if Gateways are not read. */
  readonly controllerName: string | undefined;
  /** Returns a document in force. Later changes of it are passed to `apply`. */
  readonly resource: (key: ResourceKey) => AnyResource | undefined;
  /** Called with a policy when its warnings have changed. */
  readonly onWarnings: (key: ResourceKey, policy: AnyResource) => void;
}

interface Target {
  /** The field of the reference. */
  readonly field: string;
  readonly gateway: ResourceKey;
}

export class UnservedTargets {
  readonly #options: UnservedTargetsOptions;
  /** The targets of policies that have a Gateway as a target. */
  readonly #targets = new Map<ResourceKey, readonly Target[]>();
  readonly #policies = new Map<ResourceKey, Set<ResourceKey>>();
  readonly #warnings = new Map<ResourceKey, readonly ResourceWarning[]>();

  constructor(options: UnservedTargetsOptions) {
    this.#options = options;
  }

  apply(changes: readonly ResourceChange[]): void {
    const changed = new Set<ResourceKey>();
    for (const { key, after } of changes) {
      const kind = key.slice(0, key.indexOf('/'));
      if ((KINDS as readonly string[]).includes(kind)) {
        this.#setPolicy(key, after as Policy | undefined);
        changed.add(key);
      } else if (kind === 'KubernetesGateway') {
        for (const policy of this.#policies.get(key) ?? []) changed.add(policy);
      } else if (kind === 'GatewayClass') {
        for (const policy of this.#targets.keys()) changed.add(policy);
      }
    }
    for (const key of changed) this.#warn(key);
  }

  warningsOf(key: ResourceKey): readonly ResourceWarning[] {
    return this.#warnings.get(key) ?? [];
  }

  #setPolicy(key: ResourceKey, policy: Policy | undefined): void {
    for (const { gateway } of this.#targets.get(key) ?? []) {
      const policies = this.#policies.get(gateway);
      policies?.delete(key);
      if (policies?.size === 0) this.#policies.delete(gateway);
    }
    const targets = policy === undefined ? [] : gatewaysOf(policy);
    if (targets.length === 0) this.#targets.delete(key);
    else this.#targets.set(key, targets);
    for (const { gateway } of targets) {
      const policies = this.#policies.get(gateway) ?? new Set();
      this.#policies.set(gateway, policies.add(key));
    }
  }

  #warn(key: ResourceKey): void {
    const before = this.warningsOf(key);
    const targets = this.#targets.get(key) ?? [];
    const warnings = targets.flatMap(({ field, gateway }): ResourceWarning[] => {
      const reason = this.#unserved(gateway);
      return reason === undefined ? [] : [{ field, message: messageOf(gateway, reason) }];
    });
    if (warnings.length === 0) this.#warnings.delete(key);
    else this.#warnings.set(key, warnings);
    if (warnings.length === 0 || JSON.stringify(before) === JSON.stringify(warnings)) return;
    const policy = this.#options.resource(key);
    if (policy !== undefined) this.#options.onWarnings(key, { ...policy, warnings });
  }

  /** Why a Gateway is not served; undefined if this or another revision of the control plane serves it. */
  #unserved(key: ResourceKey): string | undefined {
    const { controllerName, resource } = this.#options;
    if (controllerName === undefined) return 'is not read without CTL_ENABLED_SERVICE_APIS';
    const gateway = resource(key);
    if (gateway?.kind !== 'KubernetesGateway') return 'does not exist';
    const { gatewayClassName } = gateway.content;
    const known = resource(resourceKey('GatewayClass', '', gatewayClassName));
    if (known?.kind === 'GatewayClass' && known.content.controllerName === controllerName) return undefined;
    return `is of class ${gatewayClassName}, which this control plane does not serve`;
  }
}

function gatewaysOf({ content, meta }: Policy): readonly Target[] {
  const single = 'targetRef' in content && content.targetRef !== undefined ? [content.targetRef] : [];
  const isGateway = ({ group, kind }: TargetRef) => group === GATEWAY_GROUP && kind === 'Gateway';
  const targetOf = (field: string, { name }: TargetRef): Target => ({
    field,
    gateway: resourceKey('KubernetesGateway', meta.namespace, name),
  });
  return [
    ...single.filter(isGateway).map((ref) => targetOf('spec.targetRef', ref)),
    ...(content.targetRefs ?? []).flatMap((ref, index) =>
      isGateway(ref) ? [targetOf(`spec.targetRefs[${index}]`, ref)] : [],
    ),
  ];
}

function messageOf(gateway: ResourceKey, reason: string): string {
  const [, namespace, name] = gateway.split('/');
  const effect = `in force only for proxies of this control plane with the label ${GATEWAY_NAME_LABEL}: ${name}`;
  return `Gateway ${namespace}/${name} ${reason}: ${effect}`;
}
