/** Variables of the control plane's DNS server. */
import type { EnvTable } from '../env-table.ts';

export const discoveryDnsEnv = {
  DNS_AGENT: {
    setting: 'dnsAgent',
    type: 'string',
    default: '',
    meaning:
      'When set, the names of the mesh are served to agents by DNS over TLS on DNS_ADDR. `false` counts as unset.',
  },
  DNS_ADDR: {
    setting: 'dnsAddress',
    type: 'string',
    default: ':15053',
    meaning: 'DNS listen address; when it is given, DNS_AGENT is not needed.',
  },
  DNS_SERVER: {
    setting: 'dnsServer',
    type: 'string',
    default: '',
    meaning: 'Protocol and DNS server to use for names outside the mesh; only `tcp-tls:` is supported.',
  },
} as const satisfies EnvTable;
