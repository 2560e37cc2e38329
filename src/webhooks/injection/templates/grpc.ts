/**
 * Templates for gRPC applications that speak xDS themselves (docs/grpc.md). `grpc-agent` runs the agent without Envoy
 * beside them: it gives them a bootstrap, certificates, and its connection to the control plane. `grpc-simple` gives
 * them a bootstrap for the plain text port of the control plane, and nothing else.
 */
import { PROXY_USER } from '../redirection.ts';
import { agent, agentArguments, LABELS, POD, PROXY_CONTAINER, proxyEnv, RESTRICTED, variable } from './parts.ts';

/** The folder that the agent and the application share, and what is in it. */
const FOLDER = '/etc/mesh/proxy';
const BOOTSTRAP = `${FOLDER}/grpc-bootstrap.json`;

const AGENT_VARIABLES: Readonly<Record<string, string>> = {
  DISABLE_ENVOY: 'true',
  XDS_LOCAL: `${FOLDER}/XDS`,
  GRPC_XDS_BOOTSTRAP: BOOTSTRAP,
  OUTPUT_CERTS: `${FOLDER}/certs`,
};

/** Variables for libraries that support mutual TLS or authorization only if it is enabled. */
const EXPERIMENTS = ['GRPC_XDS_EXPERIMENTAL_SECURITY_SUPPORT', 'GRPC_XDS_EXPERIMENTAL_RBAC'];

/**
 * Containers of the Pod itself, with the bootstrap. @param volume the volume with the bootstrap, mounted at its folder
 */
const applications = (volume: string, folder: string, bootstrap: string): string => `
  {%- for container in pod.spec.containers %}
  {%- if container.name != "${PROXY_CONTAINER}" %}
  - name: {{ container.name }}
    env:${variable('GRPC_XDS_BOOTSTRAP', bootstrap)}${EXPERIMENTS.map((name) => variable(name, 'true')).join('')}
    volumeMounts:
    - { name: ${volume}, mountPath: ${folder}, readOnly: true }
  {%- endif %}
  {%- endfor %}`;

export const GRPC_AGENT = `
metadata:
  labels:${LABELS}
spec:
  # Applications, whatever their user, read the key and open the socket as members of this group.
  securityContext: { fsGroup: ${PROXY_USER} }
  {%- if proxy.native %}
  initContainers:
  {%- else %}
  containers:
  {%- endif %}
  - name: ${PROXY_CONTAINER}
    args:
    - proxy
    - sidecar${agentArguments()}${agent(
      `${Object.entries(AGENT_VARIABLES)
        .map(([name, value]) => variable(name, value))
        .join('')}${proxyEnv(Object.keys(AGENT_VARIABLES))}`,
      `
    {%- if proxy.statusPort != 0 %}
    - name: http-metrics
      containerPort: {{ proxy.statusPort }}
      protocol: TCP
    {%- endif %}`,
    )}
    {%- if proxy.native %}
    restartPolicy: Always
    # The application starts when its bootstrap and its certificate are there.
    startupProbe:
      httpGet: { path: /healthz/ready, port: 15021 }
      periodSeconds: 1
      failureThreshold: 600
      timeoutSeconds: 3
    {%- else %}
    lifecycle:
      postStart:
        exec:
          command:
          {%- for word in proxy.command %}
          - {{ word }}
          {%- endfor %}
          - wait
    {%- endif %}
    securityContext:${RESTRICTED}
  {%- if proxy.native %}
  containers:
  {%- endif %}${applications('mesh-proxy', FOLDER, BOOTSTRAP)}${POD}`;

const SIMPLE_FOLDER = '/etc/mesh/grpc';
const SIMPLE_BOOTSTRAP = `${SIMPLE_FOLDER}/bootstrap.json`;

export const GRPC_SIMPLE = `
metadata:
  labels:${LABELS}
spec:
  initContainers:
  - name: mesh-grpc-bootstrap
    image: {{ proxy.image }}
    {%- if proxy.imagePullPolicy != "" %}
    imagePullPolicy: {{ proxy.imagePullPolicy }}
    {%- endif %}
    command:
    - {{ proxy.command[0] }}
    - -e
    - require('node:fs').writeFileSync('${SIMPLE_BOOTSTRAP}', process.env.BOOTSTRAP)
    env:
    - name: POD_NAME
      valueFrom: { fieldRef: { fieldPath: metadata.name } }
    - name: POD_NAMESPACE
      valueFrom: { fieldRef: { fieldPath: metadata.namespace } }
    - name: INSTANCE_IP
      valueFrom: { fieldRef: { fieldPath: status.podIP } }
    - name: BOOTSTRAP
      value: "{{ proxy.grpcBootstrap }}"
    resources: {{ proxy.initResources }}
    volumeMounts:
    - { name: mesh-grpc, mountPath: ${SIMPLE_FOLDER} }
    securityContext:${RESTRICTED}
  containers:${applications('mesh-grpc', SIMPLE_FOLDER, SIMPLE_BOOTSTRAP)}
  volumes:
  - name: mesh-grpc
    emptyDir: { sizeLimit: 1Mi }
  {%- if proxy.imagePullSecrets.size > 0 %}
  imagePullSecrets:
  {%- for name in proxy.imagePullSecrets %}
  - name: {{ name }}
  {%- endfor %}
  {%- endif %}
`;
