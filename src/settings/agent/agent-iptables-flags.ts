/**
 * Flags and variables of `ctl-agent mesh-iptables` and `mesh-clean-iptables`. A flag whose default is a variable has
 * the same setting as that variable, which has the default.
 */

import type { EnvTable } from '../env-table.ts';
import type { FlagTable } from '../flag-table.ts';
import { agentDnsCaptureEnv } from './agent-dns-env.ts';
import { agentCommonFlags } from './agent-flags.ts';

const dryRunMeaning = 'Call no external dependencies such as iptables.';

export const meshIptablesFlags = {
  'dry-run': { type: 'bool', short: 'n', default: false, meaning: dryRunMeaning },
  'proxy-port': text('p', 'Proxy port to which all TCP traffic is redirected (default $PROXY_PORT, else 15001).'),
  'inbound-capture-port': text(
    'z',
    'Port to which all inbound TCP traffic is redirected (default $INBOUND_CAPTURE_PORT, else 15006).',
  ),
  'inbound-tunnel-port': text('e', 'Tunnel port for inbound TCP traffic (default $INBOUND_TUNNEL_PORT, else 15008).'),
  'iptables-probe-port': { type: 'string', default: '15002', meaning: 'Listen port for failure detection.' },
  'mesh-inbound-interception-mode': {
    type: 'string',
    short: 'm',
    default: '',
    values: ['REDIRECT', 'TPROXY'],
    meaning: 'REDIRECT or TPROXY.',
  },
  'mesh-inbound-ports': text(
    'b',
    'Comma-separated inbound ports redirected; `*` means all but 22, 15020, 15021 and 15090; empty disables.',
  ),
  'mesh-inbound-tproxy-mark': text('t', 'Mark of packets for the proxy, with TPROXY (1337 when not given).'),
  'mesh-inbound-tproxy-route-table': text(
    'r',
    'Routing table that delivers marked packets here, with TPROXY (133 when not given).',
  ),
  'mesh-local-exclude-ports': text(
    'd',
    'Inbound ports excluded from redirection; applies only when all inbound (`*`) is redirected (default ' +
      '$MESH_LOCAL_EXCLUDE_PORTS).',
  ),
  'mesh-local-outbound-ports-exclude': text('o', 'Outbound ports excluded from redirection.'),
  'mesh-outbound-ports': text('q', 'Outbound ports explicitly included.'),
  'mesh-service-cidr': text(
    'i',
    'Comma-separated CIDR ranges redirected; `*` means all outbound; empty disables all outbound.',
  ),
  'mesh-service-exclude-cidr': text(
    'x',
    'CIDR ranges excluded; applies only when all outbound (`*`) is redirected (default $MESH_SERVICE_EXCLUDE_CIDR).',
  ),
  'orch-virt-interfaces': text('k', 'Virtual interfaces whose inbound traffic (from a VM) is treated as outbound.'),
  'probe-timeout': { type: 'duration', default: '5s', min: 1, meaning: 'Failure detection timeout.' },
  'proxy-gid': text(
    'g',
    'GID of the user (or comma-separated GIDs) for which redirection is not applied (same default as -u).',
  ),
  'proxy-uid': text(
    'u',
    'UID of the user (or comma-separated UIDs) for which redirection is not applied, typically the proxy ' +
      "container's; when empty that of the user $PROXY_USER, else 1337.",
  ),
  'restore-format': { type: 'bool', short: 'f', default: false, meaning: 'Print rules in iptables-restore format.' },
  'run-validation': { type: 'bool', default: false, meaning: 'Validate iptables.' },
  'skip-rule-apply': { type: 'bool', default: false, meaning: 'Skip applying rules.' },
  ...agentCommonFlags,
} as const satisfies FlagTable;

export const meshCleanIptablesFlags = {
  'dry-run': { type: 'bool', short: 'n', default: false, meaning: dryRunMeaning },
  ...agentCommonFlags,
} as const satisfies FlagTable;

/** PROXY_USER has no flag; the others are defaults of flags. */
export const meshIptablesEnv = {
  PROXY_USER: { setting: 'proxyUser', type: 'string', default: 'mesh-proxy', meaning: 'Proxy user name.' },
  PROXY_PORT: { setting: 'proxyPort', type: 'string', default: '15001', meaning: 'Default of --proxy-port.' },
  INBOUND_CAPTURE_PORT: {
    setting: 'inboundCapturePort',
    type: 'string',
    default: '15006',
    meaning: 'Default of --inbound-capture-port.',
  },
  INBOUND_TUNNEL_PORT: {
    setting: 'inboundTunnelPort',
    type: 'string',
    default: '15008',
    meaning: 'Default of --inbound-tunnel-port.',
  },
  MESH_LOCAL_EXCLUDE_PORTS: {
    setting: 'meshLocalExcludePorts',
    type: 'string',
    default: '',
    meaning: 'Default of --mesh-local-exclude-ports.',
  },
  MESH_SERVICE_EXCLUDE_CIDR: {
    setting: 'meshServiceExcludeCidr',
    type: 'string',
    default: '',
    meaning: 'Default of --mesh-service-exclude-cidr.',
  },
  ...agentDnsCaptureEnv,
} as const satisfies EnvTable;

function text<S extends string>(short: S, meaning: string) {
  return { type: 'string', short, default: '', meaning } as const;
}
