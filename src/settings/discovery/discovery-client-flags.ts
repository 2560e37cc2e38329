/** The flags of commands of ctl-discovery that ask a running discovery service for what it knows. */
import type { FlagTable } from '../flag-table.ts';
import { parseListenAddress } from '../listen-address.ts';
import { discoveryCommonFlags, discoveryRequestFlags } from './discovery-flags.ts';

/** `https://host[:port]`, for services behind a proxy that terminates TLS. */
const HTTPS = /^https:\/\/[^\s/?#@]+\/?$/;

/** Throws an `Error` of one line for anything but an address to call. */
function checkCalled(text: string): void {
  if (!HTTPS.test(text)) parseListenAddress(text);
}

const output = {
  type: 'string',
  short: 'o',
  default: 'table',
  values: ['json', 'yaml', 'table'],
  meaning: 'Output format: json, yaml or table.',
} as const;

const httpAddr = {
  type: 'string',
  default: ':8080',
  meaning: 'The --httpAddr of the discovery service that is called, or https://host:port of a proxy in front of it.',
  check: checkCalled,
} as const;

/** Flags of `ctl-discovery analyze`. */
export const discoveryAnalyzeFlags = {
  'failure-threshold': {
    type: 'string',
    default: 'Error',
    values: ['Error', 'Warning', 'Info', 'None'],
    meaning: 'The exit code is 2 when there is a finding of this level or a more severe one; None: it never is.',
  },
  file: {
    type: 'stringArray',
    short: 'f',
    default: [],
    meaning: 'File or directory with documents, YAML or JSON; - is the standard input. May be repeated.',
  },
  httpAddr,
  meshConfigFile: {
    type: 'string',
    default: '',
    meaning: 'Mesh configuration file of the documents; the default mesh when unset.',
  },
  namespace: {
    type: 'string',
    short: 'n',
    default: '',
    meaning: 'Namespace of the documents that are reported; all namespaces when unset.',
  },
  networksConfigFile: {
    type: 'string',
    default: '',
    meaning: 'Mesh networks file of the documents; none when unset.',
  },
  output,
  ...discoveryCommonFlags,
} as const satisfies FlagTable;

/** Flags of `ctl-discovery diff`. */
export const discoveryDiffFlags = {
  configDir: {
    type: 'string',
    default: '',
    meaning: 'Directory that would take the place of the configuration directory: what it does not have is deleted.',
  },
  file: {
    type: 'stringArray',
    short: 'f',
    default: [],
    meaning: 'File with documents that would be applied, YAML or JSON; - is the standard input. May be repeated.',
  },
  httpAddr,
  output,
  ...discoveryCommonFlags,
} as const satisfies FlagTable;

/** Flags of `ctl-discovery get`. */
export const discoveryGetFlags = {
  httpAddr,
  namespace: { type: 'string', short: 'n', default: '', meaning: 'Namespace; all namespaces when unset.' },
  output: {
    type: 'string',
    short: 'o',
    default: '',
    values: ['yaml', 'json'],
    meaning: 'Output format: yaml or json; a table when unset. Durations are milliseconds.',
  },
  ...discoveryCommonFlags,
} as const satisfies FlagTable;

const httpAddrs = {
  type: 'stringSlice',
  default: [':8080'],
  meaning: 'As of the other commands; several addresses name the replicas of the service, which are all asked.',
  check: (addresses: readonly string[]) => addresses.forEach(checkCalled),
} as const;

const ofProxies = {
  type: 'string',
  short: 'n',
  default: '',
  meaning: 'Namespace of the proxies; all when unset.',
} as const;

/** Flags of `ctl-discovery distribution`. */
export const discoveryDistributionFlags = {
  httpAddr: httpAddrs,
  namespace: ofProxies,
  output,
  ...discoveryCommonFlags,
} as const satisfies FlagTable;

/** Flags of `ctl-discovery proxy-status`. */
export const discoveryProxyStatusFlags = {
  file: {
    type: 'string',
    short: 'f',
    default: '',
    meaning:
      "File with the config_dump of the proxy's Envoy; - is the standard input. What differs from what the proxy " +
      'should have is listed.',
  },
  httpAddr: httpAddrs,
  namespace: ofProxies,
  output,
  ...discoveryCommonFlags,
} as const satisfies FlagTable;

/** Flags of `ctl-discovery proxy-config`. */
export const discoveryProxyConfigFlags = {
  askable: {
    type: 'bool',
    default: false,
    meaning: 'Instead of what a sidecar on demand holds, what it may ask for and has not asked for yet.',
  },
  file: {
    type: 'string',
    short: 'f',
    default: '',
    meaning: 'File with the config_dump of an Envoy, instead of a proxy; - is the standard input.',
  },
  fqdn: { type: 'string', default: '', meaning: 'Only what belongs to this host.' },
  httpAddr,
  name: {
    type: 'string',
    default: '',
    meaning: 'Only the resource of this name; of endpoints, those of this cluster.',
  },
  output,
  port: { type: 'uint16', default: 0, meaning: 'Only what belongs to this port; 0 means any.' },
  ...discoveryCommonFlags,
} as const satisfies FlagTable;

/** Flags of `ctl-discovery bug-report`. */
export const discoveryBugReportFlags = {
  archive: {
    type: 'string',
    default: '',
    meaning: 'File to write, which must not exist; meshd-bug-report-<time>.tar.gz when unset.',
  },
  httpAddr,
  monitoringAddr: discoveryRequestFlags.monitoringAddr,
  profileSeconds: {
    type: 'uint16',
    default: 5,
    meaning: 'Length of the CPU profile and of the memory profile, of a service with --profile; 0 means none.',
  },
  ...discoveryCommonFlags,
} as const satisfies FlagTable;

/** Flags of `ctl-discovery validate`. */
export const discoveryValidateFlags = { output, ...discoveryCommonFlags } as const satisfies FlagTable;

/** Flags of `ctl-discovery why`. */
export const discoveryWhyFlags = { httpAddr, output, ...discoveryCommonFlags } as const satisfies FlagTable;
