/**
 * Contracts of the DNS server, which `ctl-agent` and `ctl-discovery` share.
 *
 *   UDP, TCP, TLS ─▶ server ─▶ resolver chain: name table (names of the mesh) ─▶ cache ─▶ forwarder ─▶ resolv.conf
 *                                                                                            or DNS over TLS
 *
 * Queries and responses are those of `dns-packet`, decoded once at the server.
 */
import type { Packet } from 'dns-packet';

/** The addresses of one name of the mesh. */
export interface NameEntry {
  /** IPv4 and IPv6 addresses; empty for a name that exists without an address. */
  readonly ips: readonly string[];
}

/** The names of the mesh, lower case and without a dot at the end; `*.example.com` for a wildcard. Immutable. */
export type NameTable = ReadonlyMap<string, NameEntry>;

/** From whom a query came, for limits. */
export interface DnsClient {
  readonly protocol: 'udp' | 'tcp' | 'tls';
  /** IP address. */
  readonly address: string;
  /** SPIFFE ID of a client certificate that was verified; undefined without one. */
  readonly identity: string | undefined;
}

/** Answers queries. */
export interface DnsResolver {
  /**
   * The response without its id, which is the query's; undefined when this resolver is not responsible for the name.
   * Rejects with CtlError when there is no answer; the server then answers SERVFAIL.
   */
  resolve(query: Packet, client: DnsClient): Promise<Packet | undefined> | Packet | undefined;
}

/** A server that listens. */
export interface DnsServer {
  /** The addresses in use, as `host:port`. */
  readonly addresses: readonly string[];
  close(): Promise<void>;
}
