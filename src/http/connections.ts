/**
 * Limits the connections of an HTTP server. Connections cost a client nothing, and until a request is read, it may be a
 * probe, which must be answered. So a new connection is accepted as long as any connection waits for its client: at the
 * limit, the oldest waiting connection of the address with the most connections is closed. No address may have more
 * than three quarters of the connections. Connections whose request is being processed are not closed.
 */
import { networkOf } from '../grpc/index.ts';

/** Fraction of the connections that one address may have. */
const SHARE_FRACTION = 0.75;

export interface ManagedConnection {
  /** Whether the connection waits for its client to send a request or to read a response. */
  readonly idle: boolean;
  close(): void;
}

/** The outcome for a new connection. */
export type Admitted = 'admitted' | 'admitted for another' | 'refused';

export class HttpConnections<Connection extends ManagedConnection> {
  readonly #max: number;
  readonly #share: number;
  /** By address, in order of acceptance. */
  readonly #byAddress = new Map<string, Set<Connection>>();
  readonly #addresses = new Map<Connection, string>();

  /**
   * @param max maximum number of concurrent connections
   */
  constructor(max: number) {
    this.#max = max;
    this.#share = Math.max(1, Math.floor(SHARE_FRACTION * max));
  }

  get size(): number {
    return this.#addresses.size;
  }

  /** Admits the connection, if necessary after closing another one. The caller closes a refused connection. */
  admit(remoteAddress: string, connection: Connection): Admitted {
    const address = networkOf(remoteAddress);
    const own = this.#byAddress.get(address)?.size ?? 0;
    const full = this.size >= this.#max;
    if (!full && own < this.#share) {
      this.#add(address, connection);
      return 'admitted';
    }
    const oldest = own < this.#share ? this.#toClose(address, own) : this.#oldestIdle(address);
    if (oldest === undefined) return 'refused';
    oldest.close();
    this.leave(oldest);
    this.#add(address, connection);
    return 'admitted for another';
  }

  /** The connection has closed. May be called more than once. */
  leave(connection: Connection): void {
    const address = this.#addresses.get(connection);
    if (address === undefined) return;
    this.#addresses.delete(connection);
    const connections = this.#byAddress.get(address);
    connections?.delete(connection);
    if (connections?.size === 0) this.#byAddress.delete(address);
  }

  #add(address: string, connection: Connection): void {
    const connections = this.#byAddress.get(address);
    if (connections === undefined) this.#byAddress.set(address, new Set([connection]));
    else connections.add(connection);
    this.#addresses.set(connection, address);
  }

  /**
   * The connection to close: of an address with more connections, else of the same address, else of the address with
   * the most.
   */
  #toClose(address: string, own: number): Connection | undefined {
    return this.#oldestIdle(this.#largest(own)) ?? this.#oldestIdle(address) ?? this.#oldestIdle(this.#largest(0));
  }

  /**
   * The address with the most connections among those with an idle connection and more than `own`; '' when there is
   * none.
   */
  #largest(own: number): string {
    let [largest, most] = ['', own];
    for (const [address, connections] of this.#byAddress) {
      if (connections.size <= most || this.#oldestIdle(address) === undefined) continue;
      largest = address;
      most = connections.size;
    }
    return largest;
  }

  #oldestIdle(address: string): Connection | undefined {
    for (const connection of this.#byAddress.get(address) ?? []) if (connection.idle) return connection;
    return undefined;
  }
}
