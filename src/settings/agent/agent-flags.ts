/** The flags of ctl-agent. */
import { isIP } from 'node:net';
import { loggingFlags, versionFlags } from '../common-flags.ts';
import { usageError } from '../errors.ts';
import type { FlagTable } from '../flag-table.ts';

/** Flags of every command of ctl-agent. */
export const agentCommonFlags = { ...loggingFlags('ctl-agent') } as const satisfies FlagTable;

export const agentVersionFlags = { ...versionFlags, ...agentCommonFlags } as const satisfies FlagTable;

/** The log levels of Envoy. */
const ENVOY_LEVELS = ['trace', 'debug', 'info', 'warning', 'warn', 'error', 'critical', 'off'] as const;

/** Flags of `ctl-agent proxy`. */
export const agentProxyFlags = {
  concurrency: {
    type: 'int',
    default: 0,
    min: 0,
    unit: 'threads',
    meaning: 'Number of worker threads; 0 is one per core.',
  },
  disableInternalTelemetry: { type: 'bool', default: false, meaning: 'Disable internal telemetry.' },
  domain: {
    type: 'string',
    default: '',
    meaning: 'DNS domain suffix; when empty the value of POD_NAMESPACE and .svc.cluster.local.',
    check: checkNodePart,
  },
  id: {
    type: 'string',
    default: '',
    meaning: 'Proxy unique ID; when empty the values of POD_NAME and POD_NAMESPACE with a dot between them.',
    check: checkNodePart,
  },
  ip: {
    type: 'string',
    default: '',
    meaning: 'Proxy IP address; when empty the INSTANCE_IP variable.',
    check: checkAddress,
  },
  meshConfig: {
    type: 'string',
    default: './etc/mesh/config/mesh',
    meaning:
      'Mesh configuration file; default mesh used if absent; may be overridden by PROXY_CONFIG or the proxy-config ' +
      'annotation.',
  },
  outlierLogPath: { type: 'string', default: '', meaning: 'Log path for outlier detection.' },
  policyIdentity: {
    type: 'string',
    default: '',
    meaning:
      "Identity used as suffix of the policy component's SPIFFE SAN, which is verified for decisions and records; " +
      'when empty the DNS name of the control plane is.',
    check: checkIdentitySuffix,
  },
  proxyComponentLogLevel: {
    type: 'string',
    default: 'misc:error',
    meaning: 'Component log level used to start the proxy.',
    check: checkComponentLevels,
  },
  proxyLogLevel: {
    type: 'string',
    default: 'warning',
    values: ENVOY_LEVELS,
    meaning: 'Log level used to start the proxy: trace, debug, info, warning, error, critical, off.',
  },
  serviceCluster: { type: 'string', default: 'mesh-proxy', meaning: 'Service cluster.' },
  serviceregistry: {
    type: 'string',
    default: 'Orchestrator',
    values: ['Orchestrator', 'ExtRegistry', 'Mock'],
    meaning: 'Service registry platform: Orchestrator, ExtRegistry, Mock.',
  },
  stsPort: {
    type: 'int',
    default: 0,
    min: 0,
    check: checkPort,
    meaning: 'HTTP port serving the Security Token Service; 0 means no STS.',
  },
  templateFile: { type: 'string', default: '', meaning: 'Bootstrap config template file.' },
  tokenManagerPlugin: {
    type: 'string',
    default: 'CloudTokenExchange',
    values: ['CloudTokenExchange', 'GoogleTokenExchange'],
    meaning: 'Token provider plugin name.',
  },
  'trust-domain': { type: 'string', default: '', meaning: 'Domain used for identities.' },
  ...agentCommonFlags,
} as const satisfies FlagTable;

/** Flags of `ctl-agent wait`. */
export const agentWaitFlags = {
  periodMillis: { type: 'int', default: 500, min: 1, unit: 'milliseconds', meaning: 'Milliseconds between attempts.' },
  requestTimeoutMillis: {
    type: 'int',
    default: 500,
    min: 1,
    unit: 'milliseconds',
    meaning: 'Milliseconds to wait for a response.',
  },
  timeoutSeconds: {
    type: 'int',
    default: 60,
    min: 0,
    unit: 'seconds',
    meaning: 'Maximum seconds to wait for the proxy to be ready.',
  },
  url: {
    type: 'string',
    default: 'http://localhost:15021/healthz/ready',
    meaning: 'URL polled.',
    check: checkHttpUrl,
  },
  ...agentCommonFlags,
} as const satisfies FlagTable;

function checkHttpUrl(text: string): void {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text)) throw usageError('not an http URL');
}

/** Node ids have four parts with `~` between them. */
function checkNodePart(text: string): void {
  if (/[~\s]/.test(text)) throw usageError('must not contain ~ or white space');
}

/** The path of a SPIFFE ID, without the first slash (SPIFFE-ID section 2.2). */
function checkIdentitySuffix(text: string): void {
  if (text !== '' && !/^[A-Za-z0-9._-]+(?:\/[A-Za-z0-9._-]+)*$/.test(text))
    throw usageError('not a path such as ns/a/sa/b');
}

function checkPort(port: number): void {
  if (port > 65_535) throw usageError('more than 65535');
}

function checkAddress(text: string): void {
  if (isIP(text) === 0) throw usageError('not an IP address');
}

function checkComponentLevels(text: string): void {
  for (const part of text.split(',')) {
    const level = /^[a-z0-9_]+:([a-z]+)$/i.exec(part.trim())?.[1];
    if (part.trim() !== '' && !ENVOY_LEVELS.some((each) => each === level)) {
      throw usageError(`${JSON.stringify(part.trim())} is not <component>:<level>`);
    }
  }
}
