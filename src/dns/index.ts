/**
 * Entry point of the DNS server, which `ctl-agent` and `ctl-discovery` share. Its contracts are in `types.ts`, its
 * behavior is described in docs/dns.md.
 */

export { createForwarder, type Forwarder, type ForwarderOptions, type ForwarderStats } from './forward/forwarder.ts';
export {
  followResolvConf,
  parseResolvConf,
  type ResolvConf,
  type ResolvConfSource,
} from './forward/resolv-conf.ts';
export { resolvConfUpstream } from './forward/resolv-conf-upstream.ts';
export {
  parseTlsServer,
  type TlsClientCertificates,
  type TlsServerAddress,
  tlsUpstream,
} from './forward/tls-upstream.ts';
export type { UpstreamSource } from './forward/upstream.ts';
export { createOwnAddresses } from './server/local-addresses.ts';
export { type DnsListener, type DnsServerOptions, loopbackListeners, startDnsServer } from './server/server.ts';
export type { DnsClientCertificates, DnsServerTls } from './server/streams.ts';
export type { NameScope } from './table/lookup.ts';
export { MergedNames, type PieceChanges } from './table/merged-names.ts';
export {
  createNameTable,
  EMPTY_NAME_TABLE,
  type NameEntries,
  type NameEntry,
  type NameTable,
} from './table/name-table.ts';
export { createTableResolver, type TableResolverOptions } from './table/table-resolver.ts';
export type { DnsAnswer, DnsClient, DnsQuery, DnsResolver, DnsServer, DnsServerStats } from './types.ts';
