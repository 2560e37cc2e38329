/** Entry point of the DNS server. Its contracts are in `types.ts`. */
export type { DnsClient, DnsResolver, DnsServer, NameEntry, NameTable } from './types.ts';
