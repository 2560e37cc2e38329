/**
 * The contracts between the parts of the webhooks:
 *
 *   HTTPS server (main thread) ──body──▶ worker: review ──AdmissionRequest──▶ injection, validation
 *        ▲                                                                        │
 *        └──────────────────────────── bytes of the answer ◀──AdmissionAnswer─────┘
 *
 * Everything here is plain data, and the handlers are pure: the same request and settings have the same response.
 */

/**
 * The request that the API server sends to a webhook (admission.k8s.io/v1 and v1beta1, AdmissionRequest), as far as it
 * is read.
 */
export interface AdmissionRequest {
  readonly uid: string;
  readonly operation: 'CREATE' | 'UPDATE' | 'DELETE' | 'CONNECT';
  readonly kind: { readonly group: string; readonly version: string; readonly kind: string };
  /** Empty for objects without a namespace. */
  readonly namespace: string;
  /** Empty where the API server generates the name after admission. */
  readonly name: string;
  /** Empty for the object itself. */
  readonly subResource: string;
  readonly dryRun: boolean;
  /** The new object; undefined for DELETE. */
  readonly object: unknown;
  /** The object that is replaced or deleted; undefined for CREATE. */
  readonly oldObject: unknown;
}

/** The response (AdmissionResponse). */
export interface AdmissionAnswer {
  readonly allowed: boolean;
  /** Why it is not allowed, for the user of `kubectl apply`. */
  readonly refusal?: { readonly code: number; readonly reason: string; readonly message: string };
  /** Empty or undefined: the object stays as it is. */
  readonly patch?: readonly JsonPatchOperation[];
  readonly warnings?: readonly string[];
  /** For the metrics `sidecar_injection_*_total` and `cfg_validation_*`. */
  readonly outcome: 'injected' | 'skipped' | 'injection-failed' | 'valid' | 'invalid';
  /** Why a Pod is left as it is, for the log. */
  readonly reason?: string;
}

/** RFC 6902. */
export type JsonPatchOperation =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string };

/** A document of the user's configuration, and its origin for messages. */
export interface ConfigText {
  readonly text: string;
  /** A file, or `ConfigMap mesh-system/mesh-sidecar-injector key config`. */
  readonly origin: string;
}

/** The settings of injection: cloneable, and small enough to be sent to a worker when it changes. */
export interface InjectionSettings {
  /** Policy, selectors and templates; undefined: the built-in ones only. */
  readonly config: ConfigText | undefined;
  /** Values for templates; undefined: none. */
  readonly values: ConfigText | undefined;
  /** `defaultConfig` of the mesh configuration, as its author wrote it: JSON of the API's ProxyConfig. */
  readonly proxyConfig: Readonly<Record<string, unknown>>;
  /** `enablePrometheusMerge` of the mesh configuration. */
  readonly enablePrometheusMerge: boolean;
  /** `host:port` of the secure gRPC address of the control plane, unless `proxyConfig` names one. */
  readonly discoveryAddress: string;
  /** Namespace of the control plane. */
  readonly controlPlaneNamespace: string;
  readonly trustDomain: string;
  /** DNS domain of the cluster, such as `cluster.local`. */
  readonly domain: string;
  /** `--clusterID`: the cluster of Pods unless the path of the request names one (`/inject/cluster/X`). */
  readonly clusterId: string;
  /** REVISION; empty: the default revision. */
  readonly revision: string;
  readonly jwtPolicy: string;
  /** The image of ctl-agent, unless values or annotations name one. */
  readonly image: string;
  /** Name of the ConfigMap with the roots of the mesh, in each namespace. */
  readonly rootConfigMap: string;
}

/** Parameters in the path of a request: `/inject/cluster/X/net/Y`. */
export interface InjectionParameters {
  readonly cluster?: string;
  readonly network?: string;
}

/** A ProxyConfig. */
export interface ProxyConfigDocument {
  /** `ProxyConfig namespace/name`, for messages. */
  readonly title: string;
  /** Of the Pods that it selects; none: all Pods. */
  readonly labels: Readonly<Record<string, string>>;
  /** As in the annotation `proxy.mesh.io/config`. */
  readonly config: Readonly<Record<string, unknown>>;
}

/** The ProxyConfigs that Pods of a namespace can have. */
export interface ProxyConfigs {
  readonly namespace: string;
  /** The same object until they change; several namespaces may share it. */
  readonly documents: ProxyConfigDocuments;
}

export interface ProxyConfigDocuments {
  /** For all Pods: first that of the root namespace, then that of the namespace. */
  readonly general: readonly ProxyConfigDocument[];
  /** For Pods with certain labels: the oldest first. */
  readonly selecting: readonly ProxyConfigDocument[];
  /** The documents of the namespace that are not in force, one line each. */
  readonly warnings: readonly string[];
}

/** A Pod as the API has it; nothing of it has been checked. */
export type PodObject = Readonly<Record<string, unknown>>;

/** The result of injection for a Pod. */
export type Injected =
  | { readonly kind: 'injected'; readonly pod: PodObject; readonly warnings: readonly string[] }
  /** One line that names the annotation, label, selector or policy that decided. */
  | { readonly kind: 'skipped'; readonly reason: string };

/** Injection with compiled templates. */
export interface Injector {
  /**
   * The Pod with its sidecar; the argument is not changed.
   * @param namespace the Pod's, which its own metadata need not have
   * @param proxyConfigs of that namespace
   * @throws CtlError `invalid_argument` with the field, such as `metadata.annotations[proxy.mesh.io/config]`
   * for a mistake in the Pod; `failed_precondition` with the template for a mistake in a template
   */
  inject(
    pod: PodObject,
    namespace: string,
    parameters?: InjectionParameters,
    proxyConfigs?: ProxyConfigDocuments,
  ): Injected;
}
