/** The settings of the proxy's containers: the values of injection, overridden by annotations of the Pod. */
import { CtlError } from '../../../core/errors.ts';
import type { InjectionSettings } from '../../types.ts';
import { ANNOTATIONS, type PodOptions } from '../annotations/annotations.ts';
import { ports, portsOrAll, quantityValue, ranges, rangesOrAll } from '../annotations/values.ts';
import { type PodRecord, recordOf, textsOf } from '../pod-shape.ts';
import {
  ENVOY_PORTS,
  ineffectiveExclusions,
  REDIRECTION_VARIABLES,
  type RedirectionInput,
  redirectionAnnotations,
  redirectionArguments,
  VALIDATION_FLAGS,
} from '../redirection.ts';
import { searchDomains, type Values } from '../values.ts';
import type { EffectiveProxyConfig } from './effective-proxy-config.ts';
import type { ProxyData } from './types.ts';

export interface ProxyDataInput {
  readonly options: PodOptions;
  readonly values: Values;
  readonly config: EffectiveProxyConfig;
  readonly settings: InjectionSettings;
  readonly podSpec: PodRecord;
  readonly namespace: string;
}

/** The default of Kubernetes. */
export const DEFAULT_GRACE_SECONDS = 30;

/** @throws CtlError with the field */
export function proxyData(input: ProxyDataInput): {
  readonly proxy: Omit<ProxyData, 'grpcBootstrap'>;
  readonly warnings: readonly string[];
} {
  const { options, values, config, settings } = input;
  const { global } = values;
  const statusPort = options.statusPort ?? config.value.statusPort ?? global.proxy.statusPort;
  checkStatusPort(statusPort, options);
  const interceptionMode = config.value.interceptionMode ?? 'REDIRECT';
  const redirection = redirectionInput(input, interceptionMode === 'TPROXY' ? 'TPROXY' : 'REDIRECT', statusPort);
  const isRedirected = interceptionMode !== 'NONE';
  const redirects = isRedirected && !global.cni;
  const validates = isRedirected && global.cni;
  const variables = { ...textsOf(config.written.proxyMetadata), ...configurationVariable(options) };
  const env = Object.entries(variables).map(([name, value]) => ({ name, value }));
  const proxy: Omit<ProxyData, 'grpcBootstrap'> = {
    image: proxyImage(input),
    initImage: initImage(input),
    imagePullPolicy: global.imagePullPolicy,
    imagePullSecrets: global.imagePullSecrets,
    searchDomains: searchDomains(values, input.namespace),
    command: global.proxy.command,
    resources: resources(options) ?? global.proxy.resources,
    initResources: global.proxy_init.resources,
    logLevel: options.logLevel ?? global.proxy.logLevel,
    componentLogLevel: options.componentLogLevel ?? global.proxy.componentLogLevel,
    agentLogLevel: options.agentLogLevel ?? global.logging.level,
    statusPort,
    readiness: {
      initialDelaySeconds: options.readinessInitialDelay ?? global.proxy.readinessInitialDelaySeconds,
      periodSeconds: options.readinessPeriod ?? global.proxy.readinessPeriodSeconds,
      failureThreshold: options.readinessFailureThreshold ?? global.proxy.readinessFailureThreshold,
    },
    interceptionMode,
    redirects,
    redirection: redirects ? redirectionArguments(redirection) : [],
    validates,
    validation: validates ? [...redirectionArguments(redirection), ...VALIDATION_FLAGS] : [],
    cniAnnotations: validates ? redirectionAnnotations(redirection) : {},
    holdApplication: config.value.holdApplicationUntilProxyStarts ?? global.proxy.holdApplicationUntilProxyStarts,
    native: options.nativeSidecar ?? global.nativeSidecar,
    rewriteProbes: statusPort !== 0 && (options.rewriteProbes ?? global.rewriteAppHTTPProbe),
    mergeMetrics: statusPort !== 0 && (options.mergeMetrics ?? settings.enablePrometheusMerge),
    bootstrapOverride: options.bootstrapOverride ?? '',
    volumes: options.userVolume ?? [],
    volumeMounts: options.userVolumeMount ?? [],
    env,
    initEnv: env.filter(({ name }) => REDIRECTION_VARIABLES.has(name)),
  };
  return { proxy, warnings: [...(isRedirected ? ineffective(input, redirection) : []), ...shortGracePeriod(input)] };
}

/** The variable by which the agent states it in the metadata of the proxy's node. */
function configurationVariable({ sidecarConfiguration }: PodOptions): Readonly<Record<string, string>> {
  return sidecarConfiguration === undefined ? {} : { MESH_META_SIDECAR_CONFIGURATION: sidecarConfiguration };
}

/** Annotations of the Pod, or the mesh configuration; values were checked when they were read. */
function checkStatusPort(port: number, { statusPort, proxyConfig }: PodOptions): void {
  if (!ENVOY_PORTS.includes(port)) return;
  const message = `expected a status port other than ${port}, which Envoy uses`;
  if (statusPort === undefined && proxyConfig?.config.statusPort === undefined) {
    throw new CtlError('failed_precondition', message, { field: 'mesh configuration defaultConfig.statusPort' });
  }
  const { name } = statusPort === undefined ? ANNOTATIONS.proxyConfig : ANNOTATIONS.statusPort;
  throw new CtlError('invalid_argument', message, { field: `metadata.annotations[${name}]` });
}

/** Name of the image in a repository `hub`. */
const AGENT = 'ctl-agent';

/** `mesh-iptables` runs in the image of the proxy unless the values have another one. */
function initImage(input: ProxyDataInput): string {
  const { image } = input.values.global.proxy_init;
  return image === '' ? proxyImage(input) : inHub(image, input.values);
}

/** A name without a slash is that of an image in the repository `hub`, with the common tag. */
function inHub(name: string, { global: { hub, tag } }: Values): string {
  if (name.includes('/') || hub === '') return name;
  return tag === '' ? `${hub}/${name}` : `${hub}/${name}:${tag}`;
}

function proxyImage({ options, values, config, settings }: ProxyDataInput): string {
  const { hub, proxy } = values.global;
  const given = options.proxyImageType ?? config.value.image?.imageType ?? '';
  const type = given === 'default' ? '' : given;
  const annotated = options.proxyImage === 'auto' ? undefined : options.proxyImage;
  const name = annotated ?? proxy.image;
  if (name === '') return withType(hub === '' ? settings.image : inHub(AGENT, values), type);
  if (name.includes('/') || hub === '') return annotated === undefined ? withType(name, type) : name;
  return withType(inHub(name, values), type);
}

/** An image that is named by its digest has no other type. */
function withType(image: string, type: string): string {
  const hasTag = /:[^/]+$/.test(image) && !image.includes('@');
  return type !== '' && hasTag ? `${image}-${type}` : image;
}

/** Undefined without annotations: otherwise, a request without a limit could exceed the limit of the values. */
function resources(options: PodOptions): PodRecord | undefined {
  const { proxyCpu, proxyCpuLimit, proxyMemory, proxyMemoryLimit } = options;
  checkLimit('proxyCpu', proxyCpu, 'proxyCpuLimit', proxyCpuLimit);
  checkLimit('proxyMemory', proxyMemory, 'proxyMemoryLimit', proxyMemoryLimit);
  const requests = given({ cpu: proxyCpu, memory: proxyMemory });
  const limits = given({ cpu: proxyCpuLimit, memory: proxyMemoryLimit });
  if (requests === undefined && limits === undefined) return undefined;
  return { ...(requests === undefined ? {} : { requests }), ...(limits === undefined ? {} : { limits }) };
}

function given(quantities: Readonly<Record<string, string | undefined>>): PodRecord | undefined {
  const entries = Object.entries(quantities).filter(([, value]) => value !== undefined);
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

function checkLimit(
  option: keyof typeof ANNOTATIONS,
  request: string | undefined,
  limitOption: keyof typeof ANNOTATIONS,
  limit: string | undefined,
): void {
  if (request === undefined || limit === undefined || quantityValue(request) <= quantityValue(limit)) return;
  const message = `expected at most the limit ${limit} of ${ANNOTATIONS[limitOption].name}, got ${request}`;
  throw new CtlError('invalid_argument', message, { field: `metadata.annotations[${ANNOTATIONS[option].name}]` });
}

function redirectionInput(
  { options, values }: ProxyDataInput,
  mode: RedirectionInput['mode'],
  statusPort: number,
): RedirectionInput {
  const { proxy } = values.global;
  return {
    mode,
    includeInboundPorts: options.includeInboundPorts ?? portsOrAll(proxy.includeInboundPorts),
    excludeInboundPorts: options.excludeInboundPorts ?? ports(proxy.excludeInboundPorts),
    includeOutboundPorts: options.includeOutboundPorts ?? ports(proxy.includeOutboundPorts),
    excludeOutboundPorts: options.excludeOutboundPorts ?? ports(proxy.excludeOutboundPorts),
    includeOutboundRanges: options.includeOutboundRanges ?? rangesOrAll(proxy.includeIPRanges),
    excludeOutboundRanges: options.excludeOutboundRanges ?? ranges(proxy.excludeIPRanges),
    kubevirtInterfaces: options.rerouteVirtualInterfaces ?? options.kubevirtInterfaces ?? [],
    statusPort,
  };
}

/** Only exclusions of the Pod itself: those of the values are for Pods that redirect everything. */
function ineffective({ options }: ProxyDataInput, redirection: RedirectionInput): readonly string[] {
  return ineffectiveExclusions({
    ...redirection,
    excludeInboundPorts: options.excludeInboundPorts ?? [],
    excludeOutboundRanges: options.excludeOutboundRanges ?? [],
  });
}

function shortGracePeriod({ config, podSpec }: ProxyDataInput): readonly string[] {
  const { terminationDrainDuration } = config.value;
  const { terminationGracePeriodSeconds: seconds = DEFAULT_GRACE_SECONDS } = podSpec;
  if (terminationDrainDuration === undefined || typeof seconds !== 'number') return [];
  if (terminationDrainDuration < seconds * 1000) return [];
  return [
    `spec.terminationGracePeriodSeconds: ${seconds} s is not longer than terminationDrainDuration ` +
      `of the proxy configuration, ${terminationDrainDuration / 1000} s`,
  ];
}

/** Envoy's worker threads for a CPU limit; undefined without one. */
export function concurrencyOf(resources: PodRecord): number | undefined {
  const cpu = quantityValue(String(recordOf(resources.limits).cpu ?? ''));
  return Number.isNaN(cpu) ? undefined : Math.max(1, Math.ceil(cpu));
}
