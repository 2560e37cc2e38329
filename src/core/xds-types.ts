/**
 * The resource types of xDS that this control plane serves: one row for each, in the order in which they are sent.
 * A new type is a row here and its generator; what belongs to a higher module (the generator, what is generated
 * together) is a `Record` keyed by {@link XdsType}, so that the compiler reports each record without the new type.
 * Source: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#resource-types
 */

interface Row {
  /** Full name of the message. */
  readonly message: string;
  /** What one resource is called in `/debug/syncz`. */
  readonly noun: string;
  /** `/debug/syncz` lists the type only for proxies that subscribe to it: existing tools do not expect it. */
  readonly optional: boolean;
  /** State of the world: a response has all resources of the type; of other types it has only those that changed. */
  readonly fullSet: boolean;
  /** A first request that names no resource subscribes to all of them. */
  readonly wildcard: boolean;
  /**
   * Types that its resources refer to: resources of these types are not removed while a resource that may refer to them
   * is in use.
   */
  readonly refersTo: readonly string[];
  /** Nothing refers to its resources by name, so that they may be removed at once. */
  readonly unreferenced: boolean;
  /** Resources contain private keys: quotations in errors of a proxy are removed before they are logged. */
  readonly confidential: boolean;
  /**
   * Which resources may be compressed: those into which no document can put a credential. `unpatched`: those of views
   * whose resources of this type no EnvoyFilter patches. The length of compressed data says something about its
   * content, to someone who can have other content in the same response.
   */
  readonly compressed: 'all' | 'unpatched' | 'none';
  /** Gauge of rejected resources, where Istio has one. */
  readonly rejectGauge: string | undefined;
}

/** Make before break: a resource is sent before those that refer to it, except that routes follow their listeners. */
const ROWS = {
  cds: {
    message: 'envoy.config.cluster.v3.Cluster',
    noun: 'cluster',
    optional: false,
    fullSet: true,
    wildcard: true,
    refersTo: ['eds'],
    unreferenced: false,
    confidential: false,
    compressed: 'unpatched',
    rejectGauge: 'ctl_xds_cds_reject',
  },
  eds: {
    message: 'envoy.config.endpoint.v3.ClusterLoadAssignment',
    noun: 'endpoint',
    optional: false,
    fullSet: false,
    wildcard: false,
    refersTo: [],
    unreferenced: false,
    confidential: false,
    compressed: 'all',
    rejectGauge: 'ctl_xds_eds_reject',
  },
  sds: {
    message: 'envoy.extensions.transport_sockets.tls.v3.Secret',
    noun: 'secret',
    optional: true,
    fullSet: false,
    wildcard: false,
    refersTo: [],
    unreferenced: false,
    confidential: true,
    compressed: 'none',
    rejectGauge: undefined,
  },
  // Before the listeners, which name them. Envoy subscribes to them after it has received its listeners.
  ecds: {
    message: 'envoy.config.core.v3.TypedExtensionConfig',
    noun: 'extension_config',
    optional: true,
    fullSet: false,
    wildcard: false,
    refersTo: [],
    unreferenced: false,
    confidential: false,
    // Configuration of WebAssembly filters.
    compressed: 'none',
    rejectGauge: undefined,
  },
  lds: {
    message: 'envoy.config.listener.v3.Listener',
    noun: 'listener',
    optional: false,
    fullSet: true,
    wildcard: true,
    refersTo: ['cds', 'sds', 'ecds', 'rds'],
    unreferenced: true,
    confidential: false,
    // Headers that providers of the mesh configuration add are in listeners.
    compressed: 'none',
    rejectGauge: 'ctl_xds_lds_reject',
  },
  rds: {
    message: 'envoy.config.route.v3.RouteConfiguration',
    noun: 'route',
    optional: false,
    fullSet: false,
    wildcard: false,
    refersTo: ['cds', 'vhds'],
    unreferenced: false,
    confidential: false,
    // Headers of VirtualServices.
    compressed: 'none',
    rejectGauge: 'ctl_xds_rds_reject',
  },
  vhds: {
    message: 'envoy.config.route.v3.VirtualHost',
    noun: 'virtual_host',
    optional: true,
    fullSet: false,
    // Envoy names no virtual hosts.
    wildcard: true,
    refersTo: ['cds'],
    unreferenced: false,
    confidential: false,
    // Headers of VirtualServices.
    compressed: 'none',
    // Virtual hosts count as routes, whether they are sent in route configurations or separately.
    rejectGauge: 'ctl_xds_rds_reject',
  },
  // After the listeners, because the addresses of names lead to listeners.
  nds: {
    message: 'istio.networking.nds.v1.NameTable',
    noun: 'name_table',
    optional: true,
    fullSet: true,
    // Agents name no resource.
    wildcard: true,
    refersTo: [],
    unreferenced: true,
    confidential: false,
    compressed: 'all',
    rejectGauge: undefined,
  },
} as const satisfies Readonly<Record<string, Row>>;

export type XdsType = keyof typeof ROWS;

/** What the program knows of a type; see the fields of its row. */
export interface XdsTypeInfo extends Row {
  /** The type URL in requests and responses. */
  readonly url: string;
  readonly refersTo: readonly XdsType[];
  readonly rejectGauge: (typeof ROWS)[XdsType]['rejectGauge'];
}

/** All types, in the order in which they are sent. */
export const XDS_TYPES = Object.keys(ROWS) as readonly XdsType[];

/** One value for each type. */
export function byXdsType<T>(make: (type: XdsType) => T): Record<XdsType, T> {
  const values: Partial<Record<XdsType, T>> = {};
  for (const type of XDS_TYPES) values[type] = make(type);
  return values as Record<XdsType, T>;
}

export const XDS: Readonly<Record<XdsType, XdsTypeInfo>> = byXdsType((type) => ({
  ...ROWS[type],
  url: `type.googleapis.com/${ROWS[type].message}`,
}));

const TYPE_OF: ReadonlyMap<string, XdsType> = new Map(XDS_TYPES.map((type) => [XDS[type].url, type]));

/** The type that a URL names; undefined for types that are not served. */
export function xdsTypeOfUrl(url: string): XdsType | undefined {
  return TYPE_OF.get(url);
}
