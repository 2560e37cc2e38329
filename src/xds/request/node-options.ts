/**
 * Options that the owner of a proxy sets in its node metadata, with the keys of Istio's agents: `HTTP10`,
 * `IDLE_TIMEOUT`, `TLS_CLIENT_CERT_CHAIN`, `TLS_CLIENT_KEY`, `TLS_CLIENT_ROOT_CERT`, and `gatewayTopology` of
 * `PROXY_CONFIG`; and `SIDECAR_CONFIGURATION`. They only affect the configuration of that proxy.
 */
import { CtlError } from '../../core/errors.ts';
import { isObject } from '../../core/objects.ts';
import {
  type ClientFiles,
  type GatewayTopology,
  type ProxyOptions,
  SIDECAR_CONFIGURATIONS,
  type SidecarConfiguration,
} from '../../core/proxy.ts';
import { toProtoJson } from '../../protobuf/index.ts';
import { parseProxyConfig } from '../../resources/index.ts';
import { isEnabled, parseDuration } from '../../settings/index.ts';

/** Keys of metadata with a string value. */
export const OPTION_KEYS = [
  'HTTP10',
  'SIDECAR_CONFIGURATION',
  'IDLE_TIMEOUT',
  'TLS_CLIENT_CERT_CHAIN',
  'TLS_CLIENT_KEY',
  'TLS_CLIENT_ROOT_CERT',
] as const;

/** Maximum length of a path: PATH_MAX of Linux, without the terminating byte. */
const MAX_PATH = 4095;
/** The maximum idle timeout, milliseconds: a month. */
const MAX_IDLE_MS = 31 * 24 * 3_600_000;
/** Maximum size of an encoded `gatewayTopology`, which has a few short fields. */
const MAX_TOPOLOGY_BYTES = 4096;

function invalid(key: string, expected: string, got: string): CtlError {
  const shown = JSON.stringify(got.slice(0, 64));
  return new CtlError('invalid_argument', `expected ${expected}, got ${shown}`, { field: `node.metadata.${key}` });
}

/** Throws CtlError `invalid_argument` for a value that cannot be acted on. */
export function optionsOf(
  text: (key: (typeof OPTION_KEYS)[number]) => string,
  gatewayTopology: GatewayTopology | undefined,
): ProxyOptions | undefined {
  const idleTimeoutMs = idleTimeout(text('IDLE_TIMEOUT'));
  const files = clientFiles(text);
  const configuration = configurationOf(text('SIDECAR_CONFIGURATION'));
  const options: ProxyOptions = {
    ...(configuration !== undefined && { configuration }),
    ...(isEnabled(text('HTTP10')) && { http10: true }),
    ...(idleTimeoutMs > 0 && { idleTimeoutMs }),
    ...(files !== undefined && { clientFiles: files }),
    ...(gatewayTopology !== undefined && { gatewayTopology }),
  };
  return Object.keys(options).length === 0 ? undefined : options;
}

function configurationOf(text: string): SidecarConfiguration | undefined {
  const found = SIDECAR_CONFIGURATIONS.find((each) => each === text);
  if (found !== undefined || text === '') return found;
  throw invalid('SIDECAR_CONFIGURATION', SIDECAR_CONFIGURATIONS.join(' or '), text);
}

/** 0: none. */
function idleTimeout(text: string): number {
  if (text === '') return 0;
  const milliseconds = durationOf(text);
  if (milliseconds !== undefined && milliseconds >= 0 && milliseconds <= MAX_IDLE_MS) return milliseconds;
  throw invalid('IDLE_TIMEOUT', 'a duration from 0s to 744h', text);
}

function durationOf(text: string): number | undefined {
  try {
    return parseDuration(text);
  } catch {
    return undefined;
  }
}

function clientFiles(text: (key: (typeof OPTION_KEYS)[number]) => string): ClientFiles | undefined {
  const path = (key: (typeof OPTION_KEYS)[number]): string | undefined => {
    const written = text(key);
    if (written === '') return undefined;
    if (!written.startsWith('/') || written.length > MAX_PATH) throw invalid(key, 'an absolute path', written);
    return written;
  };
  const [certChain, key, roots] = [path('TLS_CLIENT_CERT_CHAIN'), path('TLS_CLIENT_KEY'), path('TLS_CLIENT_ROOT_CERT')];
  if (certChain === undefined && key === undefined && roots === undefined) return undefined;
  return {
    ...(certChain !== undefined && { certChain }),
    ...(key !== undefined && { key }),
    ...(roots !== undefined && { roots }),
  };
}

/** @param value an encoded google.protobuf.Value */
export function topologyOf(value: Buffer): GatewayTopology | undefined {
  const field = 'node.metadata.PROXY_CONFIG.gatewayTopology';
  if (value.length > MAX_TOPOLOGY_BYTES)
    throw new CtlError('invalid_argument', `longer than ${MAX_TOPOLOGY_BYTES} bytes`, { field });
  const json = toProtoJson('google.protobuf.Value', value);
  if (json === null) return undefined;
  const parsed = parseProxyConfig({ gatewayTopology: isObject(json) ? json : String(json) });
  if ('problem' in parsed) throw new CtlError('invalid_argument', parsed.problem.message, { field });
  return parsed.value.gatewayTopology;
}
