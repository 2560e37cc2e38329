/** The proxy configuration of a Pod: that of the mesh, overridden by ProxyConfigs and by the Pod's annotations. */
import { CtlError } from '../../../core/errors.ts';
import { isObject } from '../../../core/objects.ts';
import { meshVariables, type ParsedConfig, type ProxyConfig, parseProxyConfig } from '../../../resources/index.ts';
import type { InjectionSettings } from '../../types.ts';
import { ANNOTATIONS, type PodOptions } from '../annotations/annotations.ts';
import { type PodRecord, textsOf } from '../pod-shape.ts';
import type { PodDocuments } from '../proxy-configs.ts';

export interface EffectiveProxyConfig {
  /** For PROXY_CONFIG: as the authors wrote it. */
  readonly written: PodRecord;
  /** Durations are milliseconds. */
  readonly value: ProxyConfig;
}

/** Read by injection, and without effect on the agent. */
const NOT_OF_THE_AGENT = ['holdApplicationUntilProxyStarts', 'image'];
/** The agent sends it to the control plane, which already has that of the mesh configuration. */
const STATED = 'gatewayTopology';

/** Names that the API server accepts. */
const VARIABLE = /^[-._a-zA-Z][-._a-zA-Z0-9]{0,255}$/;

/** @throws CtlError with the field */
export function effectiveProxyConfig(
  settings: InjectionSettings,
  options: PodOptions,
  { general, selecting }: PodDocuments,
): EffectiveProxyConfig {
  const { discoveryAddress, controlPlaneAuthPolicy, extraStatTags, interceptionMode, statusPort } = options;
  const field = `metadata.annotations[${ANNOTATIONS.proxyConfig.name}]`;
  const written = [
    settings.proxyConfig,
    ...general.map(({ config }) => config),
    options.proxyConfig?.config ?? {},
    selecting?.config ?? {},
    {
      ...(discoveryAddress === undefined ? {} : { discoveryAddress }),
      ...(controlPlaneAuthPolicy === undefined ? {} : { controlPlaneAuthPolicy }),
      ...(extraStatTags === undefined ? {} : { extraStatTags }),
      ...(interceptionMode === undefined ? {} : { interceptionMode }),
      ...(statusPort === undefined || statusPort === 0 ? {} : { statusPort }),
    },
  ]
    .map(withMeshVariables)
    .reduce<PodRecord>(overlaid, { discoveryAddress: settings.discoveryAddress });
  const wrong = Object.keys(textsOf(written.proxyMetadata)).find((name) => !VARIABLE.test(name));
  if (wrong !== undefined) {
    const message = `proxyMetadata: expected names of environment variables, got ${JSON.stringify(wrong.slice(0, 80))}`;
    throw new CtlError('invalid_argument', message, { field });
  }
  // Two valid configurations that are merged are valid, because their fields do not depend on each other.
  const parsed: ParsedConfig<ProxyConfig> = parseProxyConfig(written);
  if ('problem' in parsed) throw new CtlError('invalid_argument', parsed.problem.message, { field });
  return { written, value: parsed.value };
}

/**
 * PROXY_CONFIG of the agent.
 * @param own what the Pod's annotation says
 */
export function forAgent(written: PodRecord, own: PodRecord = {}): PodRecord {
  const left = Object.hasOwn(own, STATED) ? NOT_OF_THE_AGENT : [...NOT_OF_THE_AGENT, STATED];
  return Object.fromEntries(Object.entries(written).filter(([field]) => !left.includes(field)));
}

function withMeshVariables(config: PodRecord): PodRecord {
  const { proxyMetadata } = config;
  return isObject(proxyMetadata) ? { ...config, proxyMetadata: meshVariables(proxyMetadata) } : config;
}

/** Objects are merged by field; other values above replace those below. */
function overlaid(below: PodRecord, above: PodRecord): PodRecord {
  const merged = new Map(Object.entries(below));
  for (const [field, value] of Object.entries(above)) {
    const before = merged.get(field);
    if (value === undefined || value === null) continue;
    merged.set(field, isObject(before) && isObject(value) ? overlaid(before, value) : value);
  }
  return Object.fromEntries(merged);
}
