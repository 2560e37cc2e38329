/**
 * The annotations and labels of a Pod that injection acts on: one table, from which parsing, messages, warnings and
 * docs/reference/annotations.md come. Names of `istio.io` mean the same as those of `mesh.io` (`meshKey`); where a Pod
 * has both, the name of `mesh.io` takes precedence.
 */
import { CtlError, messageOf } from '../../../core/errors.ts';
import { SIDECAR_CONFIGURATIONS, type SidecarConfiguration } from '../../../core/proxy.ts';
import { meshKey, SIDECAR_CONFIGURATION } from '../../../resources/index.ts';
import { recordOf, textsOf } from '../pod-shape.ts';
import { ineffectiveNames } from './ineffective-names.ts';
import {
  agentLevels,
  boolean,
  configMapName,
  envoyComponentLevels,
  envoyLevel,
  hostPort,
  image,
  imageType,
  interfaces,
  metricsPath,
  networkName,
  oneOf,
  ports,
  portsOrAll,
  proxyConfigText,
  quantity,
  type Reader,
  ranges,
  rangesOrAll,
  revision,
  statNames,
  switchValue,
  templateNames,
  volumeMounts,
  volumes,
  wholeNumber,
} from './values.ts';

export interface AnnotationSpec<T> {
  readonly name: string;
  /** The metadata in which it is read; of both, the label takes precedence. */
  readonly on: 'annotation' | 'label' | 'label or annotation';
  /** Throws a CtlError that says what was expected. */
  readonly read: Reader<T>;
  /** The default: a value, or a field of the values of injection. */
  readonly default: string;
  readonly meaning: string;
}

function annotation<T>(name: string, read: Reader<T>, fallback: string, meaning: string): AnnotationSpec<T> {
  return { name, on: 'annotation', read, default: fallback, meaning };
}

function label<T>(name: string, read: Reader<T>, fallback: string, meaning: string): AnnotationSpec<T> {
  return { name, on: 'label', read, default: fallback, meaning };
}

/** Rows that decide whether a Pod is injected, and by what. */
const SELECTION = {
  inject: {
    name: 'sidecar.mesh.io/inject',
    on: 'label or annotation',
    read: switchValue,
    default: 'the policy',
    meaning: 'Whether the Pod gets a sidecar: true or false (also yes, no, on, off).',
  } satisfies AnnotationSpec<boolean | undefined>,
  revision: label(
    'mesh.io/rev',
    revision,
    'the default revision',
    'Revision of the control plane that injects the Pod: the selectors of its webhook configuration read it.',
  ),
  templates: annotation(
    'inject.mesh.io/templates',
    templateNames,
    'defaultTemplates',
    'Names of the templates, separated by commas, applied in this order.',
  ),
} as const;

/** Rows about the container of the sidecar. */
const CONTAINER = {
  proxyImage: annotation('sidecar.mesh.io/proxyImage', image, 'global.proxy.image', 'Image of the sidecar.'),
  proxyImageType: annotation(
    'sidecar.mesh.io/proxyImageType',
    imageType,
    '',
    'Suffix of the tag of the image, such as `debug` for `TAG-debug`; no effect when `proxyImage` is set.',
  ),
  nativeSidecar: annotation(
    'sidecar.mesh.io/nativeSidecar',
    boolean,
    'global.nativeSidecar',
    'Whether the sidecar is an init container with `restartPolicy: Always`.',
  ),
  proxyCpu: annotation(
    'sidecar.mesh.io/proxyCPU',
    quantity,
    'global.proxy.resources',
    'CPU request of the sidecar. If any of the four resource annotations is set, those of the values do not apply.',
  ),
  proxyCpuLimit: annotation(
    'sidecar.mesh.io/proxyCPULimit',
    quantity,
    'global.proxy.resources',
    'CPU limit of the sidecar. It is also the number of Envoy worker threads, unless `concurrency` is set.',
  ),
  proxyMemory: annotation(
    'sidecar.mesh.io/proxyMemory',
    quantity,
    'global.proxy.resources',
    'Memory request of the sidecar.',
  ),
  proxyMemoryLimit: annotation(
    'sidecar.mesh.io/proxyMemoryLimit',
    quantity,
    'global.proxy.resources',
    'Memory limit of the sidecar.',
  ),
  logLevel: annotation('sidecar.mesh.io/logLevel', envoyLevel, 'global.proxy.logLevel', 'Log level of Envoy.'),
  componentLogLevel: annotation(
    'sidecar.mesh.io/componentLogLevel',
    envoyComponentLevels,
    'global.proxy.componentLogLevel',
    'Log levels of components of Envoy: `<component>:<level>`, separated by commas.',
  ),
  agentLogLevel: annotation(
    'sidecar.mesh.io/agentLogLevel',
    agentLevels,
    'global.logging.level',
    'Log levels of the agent: `<scope>:<level>`, separated by commas.',
  ),
  userVolume: annotation(
    'sidecar.mesh.io/userVolume',
    volumes,
    '',
    'Additional volumes of the Pod: JSON, a list of volumes or an object of them by name.',
  ),
  userVolumeMount: annotation(
    'sidecar.mesh.io/userVolumeMount',
    volumeMounts,
    '',
    'Additional volume mounts of the sidecar: JSON, a list of mounts or an object of them by name of the volume.',
  ),
} as const;

/** Rows about the configuration of the agent and of Envoy. */
const CONFIGURATION = {
  proxyConfig: annotation(
    'proxy.mesh.io/config',
    proxyConfigText,
    'defaultConfig of the mesh',
    'Proxy configuration in YAML or JSON; its fields override those of the mesh configuration.',
  ),
  discoveryAddress: annotation(
    'sidecar.mesh.io/discoveryAddress',
    hostPort,
    'the proxy configuration',
    'Address of the control plane: `host:port`.',
  ),
  controlPlaneAuthPolicy: annotation(
    'sidecar.mesh.io/controlPlaneAuthPolicy',
    oneOf('NONE', 'MUTUAL_TLS'),
    'the proxy configuration',
    'Whether the connection to the control plane is encrypted.',
  ),
  bootstrapOverride: annotation(
    'sidecar.mesh.io/bootstrapOverride',
    configMapName,
    '',
    'ConfigMap whose key `custom_bootstrap.json` is merged into the bootstrap of Envoy.',
  ),
  extraStatTags: annotation(
    'sidecar.mesh.io/extraStatTags',
    statNames,
    'the proxy configuration',
    'Additional tags of metrics, separated by commas.',
  ),
  sidecarConfiguration: {
    name: SIDECAR_CONFIGURATION,
    on: 'label or annotation',
    read: oneOf(...SIDECAR_CONFIGURATIONS),
    default: 'that of the Namespace, then of the mesh',
    meaning:
      'What the sidecar gets of the services that it sees: all, those that its application calls (on-demand), or ' +
      'those and the ones that proxies with the same configuration have called (learned).',
  } satisfies AnnotationSpec<SidecarConfiguration>,
  network: label(
    'topology.mesh.io/network',
    networkName,
    'the path of the webhook, then global.network',
    'Network of the Pod.',
  ),
} as const;

/** Rows about probes and metrics. */
const HEALTH = {
  statusPort: annotation(
    'status.sidecar.mesh.io/port',
    wholeNumber(0, 65_535),
    'global.proxy.statusPort',
    'Port of the agent for probes of the application and metrics; 0: neither is rewritten, without a readiness probe.',
  ),
  readinessInitialDelay: annotation(
    'readiness.status.sidecar.mesh.io/initialDelaySeconds',
    wholeNumber(0, 86_400),
    'global.proxy.readinessInitialDelaySeconds',
    'Seconds before the first readiness probe of the sidecar.',
  ),
  readinessPeriod: annotation(
    'readiness.status.sidecar.mesh.io/periodSeconds',
    wholeNumber(1, 86_400),
    'global.proxy.readinessPeriodSeconds',
    'Seconds between readiness probes of the sidecar.',
  ),
  readinessFailureThreshold: annotation(
    'readiness.status.sidecar.mesh.io/failureThreshold',
    wholeNumber(1, 100_000),
    'global.proxy.readinessFailureThreshold',
    'Failed readiness probes after which the sidecar is not ready.',
  ),
  rewriteProbes: annotation(
    'sidecar.mesh.io/rewriteAppHTTPProbers',
    boolean,
    'global.rewriteAppHTTPProbe',
    'Whether the agent performs the probes of the application, so that they pass where mutual TLS is required.',
  ),
  mergeMetrics: annotation(
    'prometheus.mesh.io/merge-metrics',
    boolean,
    'enablePrometheusMerge of the mesh',
    "Whether the agent's metrics include those of the application, and the Pod's annotations name its port.",
  ),
  metricsScrape: annotation(
    'prometheus.mesh.io/scrape',
    boolean,
    'prometheus.io/scrape',
    'Whether the application serves metrics.',
  ),
  metricsPort: annotation(
    'prometheus.mesh.io/port',
    wholeNumber(1, 65_535),
    'prometheus.io/port',
    'Port of the metrics of the application.',
  ),
  metricsPath: annotation(
    'prometheus.mesh.io/path',
    metricsPath,
    'prometheus.io/path',
    'Path of the metrics of the application.',
  ),
} as const;

/** Rows about the redirection of traffic. */
const TRAFFIC = {
  interceptionMode: annotation(
    'sidecar.mesh.io/interceptionMode',
    oneOf('REDIRECT', 'TPROXY', 'NONE'),
    'the proxy configuration, REDIRECT',
    'How inbound connections reach Envoy. TPROXY keeps their addresses and needs NET_ADMIN; NONE redirects nothing.',
  ),
  includeInboundPorts: annotation(
    'traffic.sidecar.mesh.io/includeInboundPorts',
    portsOrAll,
    'global.proxy.includeInboundPorts',
    'Inbound ports that are redirected; `*`: all; empty: none.',
  ),
  excludeInboundPorts: annotation(
    'traffic.sidecar.mesh.io/excludeInboundPorts',
    ports,
    'global.proxy.excludeInboundPorts',
    'Inbound ports that are not redirected, where all others are.',
  ),
  includeOutboundPorts: annotation(
    'traffic.sidecar.mesh.io/includeOutboundPorts',
    ports,
    'global.proxy.includeOutboundPorts',
    'Outbound ports that are redirected for every destination address.',
  ),
  excludeOutboundPorts: annotation(
    'traffic.sidecar.mesh.io/excludeOutboundPorts',
    ports,
    'global.proxy.excludeOutboundPorts',
    'Outbound ports that are not redirected.',
  ),
  includeOutboundRanges: annotation(
    'traffic.sidecar.mesh.io/includeOutboundIPRanges',
    rangesOrAll,
    'global.proxy.includeIPRanges',
    'Destination addresses that are redirected, IPv4 and IPv6; `*`: all; empty: none.',
  ),
  excludeOutboundRanges: annotation(
    'traffic.sidecar.mesh.io/excludeOutboundIPRanges',
    ranges,
    'global.proxy.excludeIPRanges',
    'Destination addresses that are not redirected, where all others are.',
  ),
  kubevirtInterfaces: annotation(
    'traffic.sidecar.mesh.io/kubevirtInterfaces',
    interfaces,
    '',
    'Virtual interfaces whose inbound traffic, from a VM, is treated as outbound.',
  ),
  rerouteVirtualInterfaces: annotation(
    'mesh.io/reroute-virtual-interfaces',
    interfaces,
    '',
    'Same as `traffic.sidecar.mesh.io/kubevirtInterfaces`. When both are set, this one takes precedence.',
  ),
} as const;

export const ANNOTATIONS = { ...SELECTION, ...CONTAINER, ...CONFIGURATION, ...HEALTH, ...TRAFFIC } as const;

const BY_NAME: ReadonlyMap<string, AnnotationSpec<unknown>> = new Map(
  Object.values<AnnotationSpec<unknown>>(ANNOTATIONS).map((spec) => [spec.name, spec]),
);

type Table = typeof ANNOTATIONS;

/** The values of a Pod's annotations and labels; undefined where it has none. */
export type PodOptions = { readonly [Option in keyof Table]?: ReturnType<Table[Option]['read']> };

interface Written {
  readonly key: string;
  readonly text: string;
}

/** Values by name of `mesh.io`, with the keys that the author wrote. */
function byMeshName(texts: Readonly<Record<string, string>>): ReadonlyMap<string, Written> {
  const found = new Map<string, Written>();
  for (const [key, text] of Object.entries(texts)) {
    const name = meshKey(key);
    if (name === key || !Object.hasOwn(texts, name)) found.set(name, { key, text });
  }
  return found;
}

/**
 * Reads annotations and labels.
 * @returns the values, and a warning for each name of these domains that is unknown or without effect
 * @throws CtlError `invalid_argument` with the field, such as `metadata.annotations[sidecar.mesh.io/logLevel]`
 */
export function readAnnotations(metadata: unknown): {
  readonly options: PodOptions;
  readonly warnings: readonly string[];
} {
  const fields = recordOf(metadata);
  const annotations = byMeshName(textsOf(fields.annotations));
  const labels = byMeshName(textsOf(fields.labels));
  const sources = [
    { on: 'label', field: 'metadata.labels', values: labels },
    { on: 'annotation', field: 'metadata.annotations', values: annotations },
  ] as const;
  const warnings = sources.flatMap(({ on, field, values }) => ineffectiveNames({ field, on, values, specs: BY_NAME }));
  const options: [string, unknown][] = [];
  for (const [option, spec] of Object.entries<AnnotationSpec<unknown>>(ANNOTATIONS)) {
    const source = sources.find(({ on, values }) => spec.on.includes(on) && values.has(spec.name));
    const written = source?.values.get(spec.name);
    if (source === undefined || written === undefined) continue;
    const value = readValue(spec, `${source.field}[${written.key}]`, written.text);
    if (value !== undefined) options.push([option, value]);
  }
  // Each reader returns the type of its option; collecting entries loses it.
  return { options: Object.fromEntries(options) as PodOptions, warnings };
}

function readValue(spec: AnnotationSpec<unknown>, field: string, text: string): unknown {
  try {
    return spec.read(text);
  } catch (error) {
    throw new CtlError('invalid_argument', messageOf(error), { field });
  }
}
