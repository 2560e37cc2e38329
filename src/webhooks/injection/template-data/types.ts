/**
 * What templates can read (`{{ pod.metadata.labels["app"] }}`, `{{ proxy.logLevel }}`). Plain data: strings from users
 * never become part of the source of a template.
 */

type Fields = Readonly<Record<string, unknown>>;

export interface TemplateData {
  readonly pod: {
    readonly metadata: {
      /** Empty for Pods whose name the API server generates after injection. */
      readonly name: string;
      readonly generateName: string;
      readonly namespace: string;
      /** Labels with the names of `mesh.io` in addition to those of `istio.io`. */
      readonly labels: Readonly<Record<string, string>>;
      readonly annotations: Readonly<Record<string, string>>;
    };
    /** The spec in the form of the API. */
    readonly spec: Fields;
  };
  readonly namespace: string;
  readonly workload: WorkloadData;
  readonly proxy: ProxyData;
  /** The user's values merged into the defaults. */
  readonly values: Fields;
  /** The proxy configuration in force: the mesh's, overridden by the Pod's, with `discoveryAddress`. */
  readonly proxyConfig: Fields;
  readonly mesh: MeshData;
  /** Empty: the default revision. */
  readonly revision: string;
  readonly cluster: string;
  readonly network: string;
  /** The network when it is a valid label value, else empty. */
  readonly networkLabel: string;
}

/** The workload that the Pod belongs to, according to its owner and labels. */
export interface WorkloadData {
  /** The label `service.mesh.io/workload-name`, else the name of the Deployment or of the other owner or of the Pod. */
  readonly name: string;
  /** `kubernetes://apis/apps/v1/namespaces/shop/deployments/web`; empty for Pods without an owner and without a name. */
  readonly owner: string;
  /** Labels `service.mesh.io/canonical-name` and `…-revision` as Services show them. */
  readonly canonicalName: string;
  readonly canonicalRevision: string;
}

export interface MeshData {
  readonly trustDomain: string;
  /** DNS domain of the cluster. */
  readonly domain: string;
  readonly rootConfigMap: string;
  readonly controlPlaneNamespace: string;
  readonly jwtPolicy: string;
}

/** The settings of the proxy's containers: values, overridden by annotations and labels of the Pod. */
export interface ProxyData {
  readonly image: string;
  /** Image of `mesh-iptables`. */
  readonly initImage: string;
  /** Empty: the API server's default. */
  readonly imagePullPolicy: string;
  /** Names of Secrets. */
  readonly imagePullSecrets: readonly string[];
  /** Search domains of the Pod (`global.podDNSSearchNamespaces`). */
  readonly searchDomains: readonly string[];
  /** Command line of the agent in the image. */
  readonly command: readonly string[];
  readonly resources: Fields;
  readonly initResources: Fields;
  readonly logLevel: string;
  readonly componentLogLevel: string;
  /** Levels of the agent; empty: its default. */
  readonly agentLogLevel: string;
  /** Port of the agent for probes of the application and metrics; 0: none, and no readiness probe. */
  readonly statusPort: number;
  readonly readiness: {
    readonly initialDelaySeconds: number;
    readonly periodSeconds: number;
    readonly failureThreshold: number;
  };
  readonly interceptionMode: 'REDIRECT' | 'TPROXY' | 'NONE';
  /** Whether a container of the Pod sets up the redirection. */
  readonly redirects: boolean;
  /** Arguments of `mesh-iptables`. */
  readonly redirection: readonly string[];
  /** Whether a container of the Pod checks the redirection that a CNI plugin sets up. */
  readonly validates: boolean;
  /** Arguments of `mesh-iptables` for this check. */
  readonly validation: readonly string[];
  /** The annotations that a CNI plugin reads. */
  readonly cniAnnotations: Readonly<Record<string, string>>;
  /** Whether containers of the application start only when the proxy is ready. */
  readonly holdApplication: boolean;
  /** Whether the proxy is an init container with `restartPolicy: Always`. */
  readonly native: boolean;
  readonly rewriteProbes: boolean;
  readonly mergeMetrics: boolean;
  /** ConfigMap with a partial bootstrap; empty: none. */
  readonly bootstrapOverride: string;
  readonly volumes: readonly Fields[];
  readonly volumeMounts: readonly Fields[];
  /** More environment variables of the agent, from `proxyMetadata`. */
  readonly env: readonly Variable[];
  /** The variables that `mesh-iptables` reads. */
  readonly initEnv: readonly Variable[];
  /** The bootstrap of gRPC applications without an agent, JSON. */
  readonly grpcBootstrap: string;
}

interface Variable {
  readonly name: string;
  readonly value: string;
}
