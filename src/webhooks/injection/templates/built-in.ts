/**
 * The built-in templates: `sidecar` for workloads, `gateway` for Pods that are gateways, and those for gRPC
 * applications without a proxy.
 */

import { PROXY_USER } from '../redirection.ts';
import { GRPC_AGENT, GRPC_SIMPLE } from './grpc.ts';
import {
  agent,
  agentArguments,
  INIT_CONTAINER,
  LABELS,
  POD,
  PROXY_CONTAINER,
  proxyEnv,
  RESTRICTED,
  VALIDATION_CONTAINER,
} from './parts.ts';

const ARGUMENTS = agentArguments(`
    - --proxyLogLevel={{ proxy.logLevel }}
    - --proxyComponentLogLevel={{ proxy.componentLogLevel }}`);

const BOOTSTRAP_OVERRIDE = `
    {%- if proxy.bootstrapOverride != "" %}
    - name: MESH_BOOTSTRAP_OVERRIDE
      value: /etc/mesh/custom-bootstrap/custom_bootstrap.json
    {%- endif %}`;

/** Fields that the containers with Envoy have. */
const PROXY = agent(
  `${BOOTSTRAP_OVERRIDE}${proxyEnv()}`,
  `
    - name: http-envoy-prom
      containerPort: 15090
      protocol: TCP`,
);

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
export const BUILT_IN_TEMPLATES: Readonly<Record<string, string>> = {
  [SIDECAR_TEMPLATE]: SIDECAR,
  gateway: GATEWAY,
  'grpc-agent': GRPC_AGENT,
  'grpc-simple': GRPC_SIMPLE,
};
