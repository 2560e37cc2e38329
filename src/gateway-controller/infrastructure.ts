/**
 * The objects that run a Gateway: a ServiceAccount, a Deployment of `ctl-agent proxy router`, a Service with the ports
 * of the listeners, and, for certificates in Secrets of its namespace, a RoleBinding. All are owned by the Gateway, so
 * that the garbage collector removes them with it.
 */
import { createHash } from 'node:crypto';
import { isDnsLabel, MAX_DNS_LABEL } from '../core/dns-names.ts';
import { CtlError } from '../core/errors.ts';
import { isObject } from '../core/objects.ts';
import { type KubernetesObject, type ResourceType, v1Type } from '../kubernetes/index.ts';
import { GATEWAY_GROUP, recordsOf, type StatusFields } from './types.ts';

export interface InfrastructureSettings {
  /** An image with `ctl-agent` as its entry point. */
  readonly image: string;
  /** `host:port` of the secure gRPC address of the control plane. */
  readonly discoveryAddress: string;
  readonly controlPlaneNamespace: string;
  readonly clusterId: string;
  /** Name of the ConfigMap with the roots of the mesh, in each namespace. */
  readonly rootConfigMap: string;
  /**
   * Name of the ClusterRole by which gateways read the Secrets of their namespace. When empty, gateways do not read
   * Secrets; the control plane sends the certificates.
   */
  readonly secretsRole: string;
}

/** The parts of a Gateway that its objects depend on. */
export interface GatewayInput {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** The API version, such as `v1`. */
  readonly version: string;
  readonly annotations: Readonly<Record<string, string>>;
  /** The spec in the form of the API. */
  readonly spec: StatusFields;
}

export interface ManagedObject {
  readonly type: ResourceType;
  /** The object with its metadata. */
  readonly object: Readonly<Record<string, unknown>> & { readonly metadata: KubernetesObject['metadata'] };
}

const SERVICE_ACCOUNT = v1Type('', 'ServiceAccount', 'serviceaccounts', { wholeObjects: true });
const SERVICE = v1Type('', 'Service', 'services', { wholeObjects: true });
const DEPLOYMENT = v1Type('apps', 'Deployment', 'deployments');
const RBAC_GROUP = 'rbac.authorization.k8s.io';
const ROLE_BINDING = v1Type(RBAC_GROUP, 'RoleBinding', 'rolebindings');

/** In the order in which they are applied. RoleBindings are read only where gateways read Secrets. */
export function managedTypes({ secretsRole }: InfrastructureSettings): readonly ResourceType[] {
  const types = [SERVICE_ACCOUNT, DEPLOYMENT, SERVICE];
  return secretsRole === '' ? types : [...types, ROLE_BINDING];
}

/** The label with the name of the Gateway, on its objects and Pods. */
export const GATEWAY_NAME_LABEL = `${GATEWAY_GROUP}/gateway-name`;
/** The label of all objects of this controller. */
export const MANAGED_LABEL = 'gateway.mesh.io/managed';
/** The annotation with the hash of what was applied. */
export const APPLIED_ANNOTATION = 'gateway.mesh.io/applied';
/** Gateway annotations that set the Service's type; the second is Istio's. */
const SERVICE_TYPE_ANNOTATIONS = ['networking.mesh.io/service-type', 'networking.istio.io/service-type'];
const SERVICE_TYPES = ['LoadBalancer', 'NodePort', 'ClusterIP'];

/**
 * Labels of Pods that are gateways: no mesh injects a sidecar into these Pods, not even in a namespace with injection.
 * API servers do not call the webhooks of injection for them, because their selectors exclude these labels.
 */
const NO_SIDECAR = { 'sidecar.mesh.io/inject': 'false', 'sidecar.istio.io/inject': 'false' };

/** Protocols whose names become the names of Service ports. */
const PROTOCOLS = ['HTTP', 'HTTPS', 'TLS', 'TCP'];
/** Prefixes of keys that identify an object's owner and Gateway; `spec.infrastructure` must not set such keys. */
const RESERVED = [`${GATEWAY_GROUP}/`, 'gateway.mesh.io/'];

const PROXY_USER = 1337;
const READINESS_PORT = 15_021;
/** Seconds; the agent reads the token again for each request. */
const TOKEN_SECONDS = 43_200;

export function managedName(gateway: string): string {
  return `${gateway}-meshd`;
}

/** The value of {@link MANAGED_LABEL} on the objects of a controller; its name has one slash. */
export function managedValue(controllerName: string): string {
  return controllerName.replace('/', '-');
}

/** @throws CtlError where no Service can have the name derived from the Gateway's (RFC 1123 label) */
export function checkName(gateway: string): void {
  if (isDnsLabel(gateway) && managedName(gateway).length <= MAX_DNS_LABEL) return;
  const expected = `expected at most ${MAX_DNS_LABEL - managedName('').length} characters of a-z, 0-9 and -`;
  throw new CtlError('invalid_argument', `metadata.name: ${expected}, because its Service is named <name>-meshd`);
}

/** The objects with the hash of their content. */
export function gatewayObjects(
  gateway: GatewayInput,
  settings: InfrastructureSettings,
  managedBy: string,
): ManagedObject[] {
  const owned = { metadata: metadata(gateway, managedBy) };
  const objects: ManagedObject[] = [
    { type: SERVICE_ACCOUNT, object: owned },
    { type: DEPLOYMENT, object: { ...owned, spec: deploymentSpec(gateway, settings) } },
    { type: SERVICE, object: { ...owned, spec: serviceSpec(gateway) } },
    ...(settings.secretsRole !== '' && readsSecrets(gateway)
      ? [{ type: ROLE_BINDING, object: { ...owned, ...secretsBinding(gateway, settings.secretsRole) } }]
      : []),
  ];
  return objects.map(({ type, object }) => {
    const applied = createHash('sha256').update(JSON.stringify(object)).digest('hex').slice(0, 16);
    const annotations = { ...object.metadata.annotations, [APPLIED_ANNOTATION]: applied };
    return { type, object: { ...object, metadata: { ...object.metadata, annotations } } };
  });
}

/** The annotation's value if it is not a Service type; otherwise undefined. */
export function wrongServiceType({ annotations }: GatewayInput): string | undefined {
  const asked = askedServiceType(annotations);
  return asked === undefined || SERVICE_TYPES.includes(asked) ? undefined : asked;
}

function askedServiceType(annotations: GatewayInput['annotations']): string | undefined {
  return SERVICE_TYPE_ANNOTATIONS.map((name) => annotations[name]).find((value) => value !== undefined);
}

/** Labels and annotations of `spec.infrastructure`, without those that this controller sets. */
function infrastructure({ spec }: GatewayInput, field: 'labels' | 'annotations'): Record<string, string> {
  const texts = isObject(spec.infrastructure) ? spec.infrastructure[field] : undefined;
  if (!isObject(texts)) return {};
  return Object.fromEntries(
    Object.entries(texts).filter(
      (entry): entry is [string, string] =>
        typeof entry[1] === 'string' && !RESERVED.some((prefix) => entry[0].startsWith(prefix)),
    ),
  );
}

function labels(gateway: GatewayInput): Record<string, string> {
  return { ...infrastructure(gateway, 'labels'), [GATEWAY_NAME_LABEL]: gateway.name };
}

function metadata(gateway: GatewayInput, managedBy: string): KubernetesObject['metadata'] {
  const { namespace, name, uid, version } = gateway;
  const owner = { apiVersion: `${GATEWAY_GROUP}/${version}`, kind: 'Gateway', name, uid };
  return {
    name: managedName(name),
    namespace,
    labels: { ...labels(gateway), [MANAGED_LABEL]: managedBy },
    annotations: infrastructure(gateway, 'annotations'),
    ownerReferences: [{ ...owner, controller: true, blockOwnerDeletion: false }],
  } as KubernetesObject['metadata'];
}

/** Envoy listens on the listeners' ports. */
function serviceSpec(gateway: GatewayInput): Record<string, unknown> {
  const ports = new Map<number, Record<string, unknown>>();
  for (const { port, protocol } of recordsOf(gateway.spec.listeners)) {
    if (typeof port !== 'number' || protocol === 'UDP' || ports.has(port)) continue;
    const known = typeof protocol === 'string' && PROTOCOLS.includes(protocol);
    ports.set(port, {
      name: `${known ? protocol.toLowerCase() : 'tcp'}-${port}`,
      port,
      targetPort: port,
      protocol: 'TCP',
    });
  }
  const asked = askedServiceType(gateway.annotations);
  const type = asked !== undefined && SERVICE_TYPES.includes(asked) ? asked : 'LoadBalancer';
  const address = recordsOf(gateway.spec.addresses).find(
    ({ type: of = 'IPAddress', value }) => of === 'IPAddress' && typeof value === 'string' && value !== '',
  );
  return {
    type,
    selector: { [GATEWAY_NAME_LABEL]: gateway.name },
    ports: [...ports.values()],
    ...(address !== undefined && type === 'LoadBalancer' ? { loadBalancerIP: address.value } : {}),
  };
}

/** Whether a listener has its certificate in a Secret of the Gateway's namespace. */
function readsSecrets({ namespace, spec }: GatewayInput): boolean {
  const references = recordsOf(spec.listeners).flatMap(({ tls }) =>
    isObject(tls) && tls.mode !== 'Passthrough' ? recordsOf(tls.certificateRefs) : [],
  );
  return references.some((reference) => (reference.namespace ?? namespace) === namespace);
}

/** Grants only this Gateway's ServiceAccount access to the Secrets of its namespace. */
function secretsBinding({ namespace, name }: GatewayInput, role: string): Record<string, unknown> {
  return {
    roleRef: { apiGroup: RBAC_GROUP, kind: 'ClusterRole', name: role },
    subjects: [{ kind: 'ServiceAccount', name: managedName(name), namespace }],
  };
}

/** Whether an object has another `roleRef`, which the API server does not allow to be changed. */
export function refersToOtherRole(wanted: ManagedObject['object'], present: KubernetesObject): boolean {
  const { roleRef } = present as KubernetesObject & { readonly roleRef?: unknown };
  return wanted.roleRef !== undefined && !isContained(wanted.roleRef, roleRef);
}

/** Without `replicas`, so that users and autoscalers can set the number. */
function deploymentSpec(gateway: GatewayInput, settings: InfrastructureSettings): Record<string, unknown> {
  const { name } = gateway;
  return {
    selector: { matchLabels: { [GATEWAY_NAME_LABEL]: name } },
    // A new Pod becomes ready before the old one is terminated.
    strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
    template: {
      metadata: {
        labels: { ...labels(gateway), ...NO_SIDECAR },
        annotations: infrastructure(gateway, 'annotations'),
      },
      spec: {
        serviceAccountName: managedName(name),
        // With it the agent reads Secrets. Without a RoleBinding the account has no permissions.
        automountServiceAccountToken: settings.secretsRole !== '',
        securityContext: {
          runAsNonRoot: true,
          runAsUser: PROXY_USER,
          runAsGroup: PROXY_USER,
          fsGroup: PROXY_USER,
          seccompProfile: { type: 'RuntimeDefault' },
          // Allows ports below 1024 without a capability.
          sysctls: [{ name: 'net.ipv4.ip_unprivileged_port_start', value: '0' }],
        },
        containers: [container(settings)],
        volumes: volumes(settings),
      },
    },
  };
}

function container(settings: InfrastructureSettings): Record<string, unknown> {
  const { image, discoveryAddress, controlPlaneNamespace, clusterId, secretsRole } = settings;
  const field = (name: string, fieldPath: string) => ({ name, valueFrom: { fieldRef: { fieldPath } } });
  return {
    name: 'proxy',
    image,
    args: ['proxy', 'router'],
    env: [
      field('POD_NAME', 'metadata.name'),
      field('POD_NAMESPACE', 'metadata.namespace'),
      field('INSTANCE_IP', 'status.podIP'),
      field('SERVICE_ACCOUNT', 'spec.serviceAccountName'),
      { name: 'MESH_NAMESPACE', value: controlPlaneNamespace },
      { name: 'CLUSTER_ID', value: clusterId },
      { name: 'PROXY_CONFIG', value: JSON.stringify({ discoveryAddress }) },
      ...(secretsRole === '' ? [] : [{ name: 'ENABLE_INGRESS_GATEWAY_SDS', value: 'true' }]),
    ],
    ports: [{ name: 'http-status', containerPort: READINESS_PORT, protocol: 'TCP' }],
    // It succeeds when Envoy has its certificate and its first configuration.
    startupProbe: {
      httpGet: { path: '/healthz/ready', port: READINESS_PORT },
      periodSeconds: 1,
      failureThreshold: 300,
    },
    readinessProbe: { httpGet: { path: '/healthz/ready', port: READINESS_PORT }, periodSeconds: 3, timeoutSeconds: 5 },
    resources: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '1Gi' } },
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
    volumeMounts: [
      // For the bootstrap of Envoy and its sockets.
      { name: 'proxy', mountPath: '/etc/mesh/proxy' },
      { name: 'pod', mountPath: '/etc/mesh/pod', readOnly: true },
      { name: 'token', mountPath: '/var/run/secrets/tokens', readOnly: true },
      { name: 'roots', mountPath: '/var/run/secrets/mesh', readOnly: true },
    ],
  };
}

function volumes({ rootConfigMap }: InfrastructureSettings): Record<string, unknown>[] {
  const token = { audience: 'mesh-ca', path: 'mesh-token', expirationSeconds: TOKEN_SECONDS };
  return [
    { name: 'proxy', emptyDir: { sizeLimit: '64Mi' } },
    { name: 'pod', downwardAPI: { items: [{ path: 'labels', fieldRef: { fieldPath: 'metadata.labels' } }] } },
    // The token proves to the control plane which Pod this is.
    { name: 'token', projected: { sources: [{ serviceAccountToken: token }] } },
    // The Pod does not start until the control plane has written the ConfigMap.
    { name: 'roots', configMap: { name: rootConfigMap } },
  ];
}

/** Whether `present` has every field of `wanted`; other writers may add fields. List entries may be in any order. */
export function isContained(wanted: unknown, present: unknown): boolean {
  if (Array.isArray(wanted)) {
    return Array.isArray(present) && wanted.every((entry) => present.some((each) => isContained(entry, each)));
  }
  // The API server omits empty fields.
  if (isObject(wanted)) {
    const entries = Object.entries(wanted);
    if (entries.length === 0) return present === undefined || isObject(present);
    return isObject(present) && entries.every(([field, value]) => isContained(value, present[field]));
  }
  return wanted === present;
}
