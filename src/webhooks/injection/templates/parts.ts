/** What the built-in templates have in common, as strings. Their outputs are described in `template-data/types.ts`. */
import { PROXY_USER } from '../redirection.ts';

/**
 * Names of the containers. If a Pod has a container with one of these names, its fields override those of the template.
 */
export const PROXY_CONTAINER = 'mesh-proxy';
export const INIT_CONTAINER = 'mesh-init';
export const VALIDATION_CONTAINER = 'mesh-validation';

export const LABELS = `
    service.mesh.io/canonical-name: {{ workload.canonicalName }}
    service.mesh.io/canonical-revision: {{ workload.canonicalRevision }}
    mesh.io/rev: {{ pod.metadata.labels["mesh.io/rev"] | default: revision | default: "default" }}
    {%- if networkLabel != "" %}
    # The control plane reads this label if the proxy is connected to another replica, or not connected yet.
    topology.mesh.io/network: {{ networkLabel }}
    {%- endif %}`;

/** A field of the Pod as a variable. */
const fromField = (name: string, field: string): string => `
    - name: ${name}
      valueFrom: { fieldRef: { fieldPath: ${field} } }`;

/** The variables by name. `proxyMetadata` cannot set them. */
const VARIABLES: Readonly<Record<string, string>> = {
  POD_NAME: fromField('POD_NAME', 'metadata.name'),
  POD_NAMESPACE: fromField('POD_NAMESPACE', 'metadata.namespace'),
  // The agent reads the other addresses of the Pod from its network interfaces.
  INSTANCE_IP: fromField('INSTANCE_IP', 'status.podIP'),
  HOST_IP: fromField('HOST_IP', 'status.hostIP'),
  SERVICE_ACCOUNT: fromField('SERVICE_ACCOUNT', 'spec.serviceAccountName'),
  MESH_NAMESPACE: variable('MESH_NAMESPACE', '{{ mesh.controlPlaneNamespace }}'),
  CLUSTER_ID: variable('CLUSTER_ID', '{{ cluster }}'),
  JWT_POLICY: variable('JWT_POLICY', '{{ mesh.jwtPolicy }}'),
  PROXY_CONFIG: variable('PROXY_CONFIG', '{{ proxyConfig | json }}'),
  MESH_META_WORKLOAD_NAME: variable('MESH_META_WORKLOAD_NAME', '{{ workload.name }}'),
  MESH_META_OWNER: optional('MESH_META_OWNER', 'workload.owner'),
  MESH_META_NETWORK: optional('MESH_META_NETWORK', 'network'),
};

/** Variables of the agent that the templates set. */
export const TEMPLATE_VARIABLES: ReadonlySet<string> = new Set([...Object.keys(VARIABLES), 'MESH_BOOTSTRAP_OVERRIDE']);

export function variable(name: string, value: string): string {
  return `
    - name: ${name}
      value: "${value}"`;
}

function optional(name: string, output: string): string {
  return `
    {%- if ${output} != "" %}${variable(name, `{{ ${output} }}`)}
    {%- endif %}`;
}

/**
 * Variables of the Pod's proxy configuration, except those that the template sets itself. @param own names of the
 * latter
 */
export const proxyEnv = (own: readonly string[] = []): string => `
    {%- assign own = "${own.join(' ')}" | split: " " %}
    {%- for variable in proxy.env %}
    {%- unless own contains variable.name %}
    - name: {{ variable.name }}
      value: "{{ variable.value }}"
    {%- endunless %}
    {%- endfor %}`;

/** Fields of every container with the agent. */
export const agent = (env: string, ports: string): string => `
    image: {{ proxy.image }}
    {%- if proxy.imagePullPolicy != "" %}
    imagePullPolicy: {{ proxy.imagePullPolicy }}
    {%- endif %}
    env:${Object.values(VARIABLES).join('')}${env}
    ports:${ports}
    {%- if proxy.statusPort != 0 %}
    readinessProbe:
      httpGet: { path: /healthz/ready, port: 15021 }
      initialDelaySeconds: {{ proxy.readiness.initialDelaySeconds }}
      periodSeconds: {{ proxy.readiness.periodSeconds }}
      failureThreshold: {{ proxy.readiness.failureThreshold }}
      timeoutSeconds: 3
    {%- endif %}
    resources: {{ proxy.resources }}
    volumeMounts:
    - { name: mesh-proxy, mountPath: /etc/mesh/proxy }
    - { name: mesh-pod, mountPath: /etc/mesh/pod, readOnly: true }
    - { name: mesh-roots, mountPath: /var/run/secrets/mesh, readOnly: true }
    {%- if mesh.jwtPolicy == "third-party-jwt" %}
    - { name: mesh-token, mountPath: /var/run/secrets/tokens, readOnly: true }
    {%- endif %}
    {%- if proxy.bootstrapOverride != "" %}
    - { name: mesh-bootstrap, mountPath: /etc/mesh/custom-bootstrap, readOnly: true }
    {%- endif %}
    {%- for mount in proxy.volumeMounts %}
    - {{ mount }}
    {%- endfor %}`;

/** Arguments of the agent. @param envoy arguments about Envoy */
export const agentArguments = (envoy = ''): string => `
    - --domain=$(POD_NAMESPACE).svc.{{ mesh.domain }}${envoy}
    {%- if proxy.agentLogLevel != "" %}
    - --log_output_level={{ proxy.agentLogLevel }}
    {%- endif %}`;

/**
 * Settings that the restricted Pod Security Standard permits. The Pod needs no fsGroup: without it, the kubelet makes
 * projected tokens readable for all users of the Pod.
 */
export const RESTRICTED = `
      allowPrivilegeEscalation: false
      capabilities: { drop: [ALL] }
      privileged: false
      readOnlyRootFilesystem: true
      runAsGroup: ${PROXY_USER}
      runAsNonRoot: true
      runAsUser: ${PROXY_USER}
      seccompProfile: { type: RuntimeDefault }`;

export const POD = `
  volumes:
  # Bootstrap and sockets.
  - name: mesh-proxy
    emptyDir: { sizeLimit: 64Mi }
  - name: mesh-pod
    downwardAPI:
      items:
      - { path: labels, fieldRef: { fieldPath: metadata.labels } }
      - { path: annotations, fieldRef: { fieldPath: metadata.annotations } }
  # The Pod does not start until the control plane has written this ConfigMap.
  - name: mesh-roots
    configMap: { name: "{{ mesh.rootConfigMap }}" }
  {%- if mesh.jwtPolicy == "third-party-jwt" %}
  # Identifies the Pod to the control plane. The agent reads the token again for each request.
  - name: mesh-token
    projected:
      sources:
      - serviceAccountToken: { audience: mesh-ca, path: mesh-token, expirationSeconds: 43200 }
  {%- endif %}
  {%- if proxy.bootstrapOverride != "" %}
  - name: mesh-bootstrap
    configMap: { name: "{{ proxy.bootstrapOverride }}" }
  {%- endif %}
  {%- for volume in proxy.volumes %}
  - {{ volume }}
  {%- endfor %}
  {%- if proxy.imagePullSecrets.size > 0 %}
  imagePullSecrets:
  {%- for name in proxy.imagePullSecrets %}
  - name: {{ name }}
  {%- endfor %}
  {%- endif %}
`;
