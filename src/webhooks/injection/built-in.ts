/**
 * The built-in templates: `sidecar` for workloads, `gateway` for Pods that are gateways. Their outputs are described in
 * `template-data.ts`.
 */
import { PROXY_USER } from './redirection.ts';

/** Names of the containers. A container of the Pod with such a name overrides fields of the template's. */
export const PROXY_CONTAINER = 'mesh-proxy';
export const INIT_CONTAINER = 'mesh-init';
export const VALIDATION_CONTAINER = 'mesh-validation';

const LABELS = `
    service.mesh.io/canonical-name: {{ workload.canonicalName }}
    service.mesh.io/canonical-revision: {{ workload.canonicalRevision }}
    mesh.io/rev: {{ pod.metadata.labels["mesh.io/rev"] | default: revision | default: "default" }}
    {%- if networkLabel != "" %}
    # The control plane reads it for endpoints whose proxy is connected to another replica, or not yet.
    topology.mesh.io/network: {{ networkLabel }}
    {%- endif %}`;

/** A field of the Pod as a variable. */
const fromField = (name: string, field: string): string => `
    - name: ${name}
      valueFrom: { fieldRef: { fieldPath: ${field} } }`;

/** Names and where the values come from; `proxyMetadata` cannot set these variables. */
const VARIABLES: Readonly<Record<string, string>> = {
  POD_NAME: fromField('POD_NAME', 'metadata.name'),
  POD_NAMESPACE: fromField('POD_NAMESPACE', 'metadata.namespace'),
  // Other addresses of the Pod are those of its interfaces.
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

function variable(name: string, value: string): string {
  return `
    - name: ${name}
      value: "${value}"`;
}

function optional(name: string, output: string): string {
  return `
    {%- if ${output} != "" %}${variable(name, `{{ ${output} }}`)}
    {%- endif %}`;
}

/** Fields that the containers of both templates have. */
const PROXY = `
    image: {{ proxy.image }}
    {%- if proxy.imagePullPolicy != "" %}
    imagePullPolicy: {{ proxy.imagePullPolicy }}
    {%- endif %}
    env:${Object.values(VARIABLES).join('')}
    {%- if proxy.bootstrapOverride != "" %}
    - name: MESH_BOOTSTRAP_OVERRIDE
      value: /etc/mesh/custom-bootstrap/custom_bootstrap.json
    {%- endif %}
    {%- for variable in proxy.env %}
    - name: {{ variable.name }}
      value: "{{ variable.value }}"
    {%- endfor %}
    ports:
    - name: http-envoy-prom
      containerPort: 15090
      protocol: TCP
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

const ARGUMENTS = `
    - --domain=$(POD_NAMESPACE).svc.{{ mesh.domain }}
    - --proxyLogLevel={{ proxy.logLevel }}
    - --proxyComponentLogLevel={{ proxy.componentLogLevel }}
    {%- if proxy.agentLogLevel != "" %}
    - --log_output_level={{ proxy.agentLogLevel }}
    {%- endif %}`;

/**
 * What restricted Pod Security admits. The Pod needs no group of its volumes (fsGroup): without one, the kubelet makes
 * projected tokens readable for all users of the Pod.
 */
const RESTRICTED = `
      allowPrivilegeEscalation: false
      capabilities: { drop: [ALL] }
      privileged: false
      readOnlyRootFilesystem: true
      runAsGroup: ${PROXY_USER}
      runAsNonRoot: true
      runAsUser: ${PROXY_USER}
      seccompProfile: { type: RuntimeDefault }`;

const POD = `
  volumes:
  # The bootstrap of Envoy and its sockets.
  - name: mesh-proxy
    emptyDir: { sizeLimit: 64Mi }
  - name: mesh-pod
    downwardAPI:
      items:
      - { path: labels, fieldRef: { fieldPath: metadata.labels } }
      - { path: annotations, fieldRef: { fieldPath: metadata.annotations } }
  # The Pod waits until the control plane has written it.
  - name: mesh-roots
    configMap: { name: "{{ mesh.rootConfigMap }}" }
  {%- if mesh.jwtPolicy == "third-party-jwt" %}
  # Proves to the control plane which Pod this is. The agent reads it again for each request.
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

/** A container that runs `mesh-iptables`. @param output the output with its arguments */
const iptables = (name: string, output: string): string => `
  - name: ${name}
    image: {{ proxy.initImage }}
    {%- if proxy.imagePullPolicy != "" %}
    imagePullPolicy: {{ proxy.imagePullPolicy }}
    {%- endif %}
    args: {{ ${output} }}
    {%- if proxy.initEnv.size > 0 %}
    env:
    {%- for variable in proxy.initEnv %}
    - name: {{ variable.name }}
      value: "{{ variable.value }}"
    {%- endfor %}
    {%- endif %}
    resources: {{ proxy.initResources }}
    securityContext:`;

/** NET_ADMIN for iptables and routes, NET_RAW for the tables that iptables opens as raw sockets; both need root. */
const INIT = `${iptables(INIT_CONTAINER, 'proxy.redirection')}
      allowPrivilegeEscalation: false
      capabilities: { add: [NET_ADMIN, NET_RAW], drop: [ALL] }
      privileged: false
      readOnlyRootFilesystem: true
      runAsGroup: 0
      runAsNonRoot: false
      runAsUser: 0
      seccompProfile: { type: RuntimeDefault }`;

/**
 * The application does not start before the CNI plugin has redirected its traffic: until then the container fails, with
 * an exit code by which programs that repair Pods recognize it. It runs as the user of the proxy.
 */
const VALIDATION = `${iptables(VALIDATION_CONTAINER, 'proxy.validation')}${RESTRICTED}`;

const SIDECAR = `
metadata:
  labels:
    security.mesh.io/tlsMode: {{ pod.metadata.labels["security.mesh.io/tlsMode"] | default: "mesh" }}${LABELS}
  annotations: {{ proxy.cniAnnotations }}
spec:
  {%- if proxy.searchDomains.size > 0 %}
  dnsConfig: { searches: {{ proxy.searchDomains }} }
  {%- endif %}
  {%- if proxy.redirects or proxy.validates or proxy.native %}
  initContainers:
  {%- endif %}
  {%- if proxy.redirects %}${INIT}
  {%- elsif proxy.validates %}${VALIDATION}
  {%- endif %}
  {%- unless proxy.native %}
  containers:
  {%- endunless %}
  - name: ${PROXY_CONTAINER}
    args:
    - proxy
    - sidecar${ARGUMENTS}${PROXY}
    {%- if proxy.native %}
    restartPolicy: Always
    # The next init containers and those of the application start when the proxy is ready.
    startupProbe:
      httpGet: { path: /healthz/ready, port: 15021 }
      periodSeconds: 1
      failureThreshold: 600
      timeoutSeconds: 3
    {%- elsif proxy.holdApplication %}
    # The kubelet starts the next containers when this has ended.
    lifecycle:
      postStart:
        exec:
          command:
          {%- for word in proxy.command %}
          - {{ word }}
          {%- endfor %}
          - wait
    {%- endif %}
    securityContext:
    {%- if proxy.interceptionMode == "TPROXY" %}
      # Transparent sockets need NET_ADMIN, which containers of other users do not get. The group excludes the proxy
      # from redirection.
      allowPrivilegeEscalation: false
      capabilities: { add: [NET_ADMIN], drop: [ALL] }
      privileged: false
      readOnlyRootFilesystem: true
      runAsGroup: ${PROXY_USER}
      runAsNonRoot: false
      runAsUser: 0
      seccompProfile: { type: RuntimeDefault }
    {%- else %}${RESTRICTED}
    {%- endif %}${POD}`;

const GATEWAY = `
metadata:
  labels:${LABELS}
spec:
  securityContext:
    # Ports below 1024 without a capability.
    sysctls:
    - { name: net.ipv4.ip_unprivileged_port_start, value: "0" }
  containers:
  - name: ${PROXY_CONTAINER}
    args:
    - proxy
    - router${ARGUMENTS}${PROXY}
    # Envoy has its certificate and its first configuration.
    startupProbe:
      httpGet: { path: /healthz/ready, port: 15021 }
      periodSeconds: 1
      failureThreshold: 300
      timeoutSeconds: 3
    securityContext:${RESTRICTED}${POD}`;

export const SIDECAR_TEMPLATE = 'sidecar';

/** Texts by name. */
export const BUILT_IN_TEMPLATES: Readonly<Record<string, string>> = { [SIDECAR_TEMPLATE]: SIDECAR, gateway: GATEWAY };
