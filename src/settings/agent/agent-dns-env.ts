/** Variables of the agent's DNS server. */
import type { EnvTable } from '../env-table.ts';

/**
 * The variables that both `mesh-iptables` and the agent read, so that queries are redirected to the port that the agent
 * listens on.
 */
export const agentDnsCaptureEnv = {
  DNS_AGENT: {
    setting: 'dnsAgent',
    type: 'string',
    default: '',
    meaning:
      'When set, outgoing DNS packets on port 53 are captured and redirected to the agent on :15053. `false` counts ' +
      'as unset.',
  },
  DNS_ADDR: { setting: 'dnsAddress', type: 'string', default: ':15053', meaning: 'DNS listen address.' },
  MESH_META_DNS_CAPTURE: {
    setting: 'dnsCapture',
    type: 'string',
    default: '',
    meaning:
      'When set, outgoing DNS packets on port 53 are captured and redirected to the proxy on :15013. `false` counts ' +
      'as unset.',
  },
} as const satisfies EnvTable;

/** The other variables of the agent's DNS server. */
export const agentDnsEnv = {
  ...agentDnsCaptureEnv,
  DNS_SERVER: {
    setting: 'dnsServer',
    type: 'string',
    default: '',
    meaning: 'Protocol and DNS server to use; only `tcp-tls:` is supported.',
  },
} as const satisfies EnvTable;
