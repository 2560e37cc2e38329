/**
 * Contracts of the DNS server, which `ctl-agent` and `ctl-discovery` share.
 *
 *   UDP, TCP, TLS ─▶ server ─▶ resolver chain: name table (names of the mesh) ─▶ forwarder, with cache ─▶ resolv.conf
 *                                                                                            or DNS over TLS
 *
 * Queries are decoded once, at the server. Responses stay in wire format: the response of an upstream resolver is
 * passed on unchanged, whatever types of records it has.
 */

/** The sender of a query, for limits. */
export interface DnsClient {
  readonly protocol: 'udp' | 'tcp' | 'tls';
  readonly address: string;
  readonly port: number;
  /** SPIFFE ID of a client certificate that was verified; undefined without one. */
  readonly identity: string | undefined;
}

/** The OPT record of a query (RFC 6891). */
export interface DnsEdns {
  /** The largest UDP response that the client accepts, bytes. */
  readonly udpPayload: number;
  /** The DO bit: the client wants DNSSEC records (RFC 3225). */
  readonly dnssecOk: boolean;
}

export interface DnsQuery {
  readonly bytes: Buffer;
  /** Where the question section ends; it begins at byte 12. */
  readonly questionEnd: number;
  /** The name in wire format without the root label, one character a byte, with the case in which it was sent. */
  readonly wireName: string;
  /** Lower case, without a dot at the end. Undefined for a name that is not a host name, which no table contains. */
  readonly name: string | undefined;
  /** Number of the record type, see {@link ./wire/constants.ts}. */
  readonly type: number;
  readonly edns: DnsEdns | undefined;
}

/**
 * A response to a query in wire format: complete (the server truncates), with the id and question of the query, without
 * an OPT record (the server adds its own).
 */
export type DnsResponse = Buffer;

export interface DnsResolver {
  /**
   * Rejects or throws CtlError if the name cannot be resolved; the server then returns SERVFAIL. Names that it knows
   * are resolved synchronously, which is several times faster.
   *
   * @param next calls the next resolvers of the chain, for names that this resolver does not know
   */
  resolve(query: DnsQuery, client: DnsClient, next: () => DnsAnswer): DnsAnswer;
}

export type DnsAnswer = DnsResponse | Promise<DnsResponse>;

export interface DnsServer {
  /** The addresses in use, as `host:port`, `[host]:port`. */
  readonly addresses: readonly string[];
  readonly stats: DnsServerStats;
  close(): Promise<void>;
}

/** Counters since the start. */
export interface DnsServerStats {
  /** Queries received, by protocol. */
  readonly queries: { readonly udp: number; readonly tcp: number; readonly tls: number };
  /** Responses sent, by response code: `NOERROR`, `SERVFAIL`, … */
  readonly responses: ReadonlyMap<string, number>;
  /** Responses that did not fit into a UDP message. */
  readonly truncated: number;
  /** Queries that received SERVFAIL, and connections that were closed, because of a limit. */
  readonly limited: number;
  readonly connections: number;
}
