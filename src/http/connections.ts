/**
 * Who may hold a connection of an HTTP server. Connections cost their owners nothing, and before a request is read
 * nobody knows whether it is a probe that must be answered. So a new connection gets a place as long as any connection
 * waits for its client: when all places are taken, the one of these that was accepted first is closed, of the address
 * that holds most. No address holds more than three of four places. Connections whose request is being answered are not
 * touched.
 */
import { networkOf } from '../grpc/index.ts';

/** Part of all places that one address may have. */
const SHARE = 0.75;

export interface HeldConnection {
  /** Nothing is being done for it here: the client is to send a request, or to take its answer. */
  readonly idle: boolean;
  close(): void;
}

/** What came of a new connection. */
export type Admitted = 'admitted' | 'admitted for another' | 'refused';

export class HttpConnections<Connection extends HeldConnection> {
  readonly #max: number;
  readonly #share: number;
  /** By address, in the order in which they were accepted. */
  readonly #held = new Map<string, Set<Connection>>();
  readonly #addresses = new Map<Connection, string>();

  /** @param max connections at a time */
  constructor(max: number) {
    this.#max = max;
    this.#share = Math.max(1, Math.floor(SHARE * max));
  }

  get size(): number {
    return this.#addresses.size;
  }

  /** Gives the connection a place, maybe that of another, which is closed. The caller closes it when it is refused. */
  admit(remoteAddress: string, connection: Connection): Admitted {
    const address = networkOf(remoteAddress);
    const own = this.#held.get(address)?.size ?? 0;
    const full = this.size >= this.#max;
    if (!full && own < this.#share) {
      this.#add(address, connection);
      return 'admitted';
    }
    const oldest = own < this.#share ? this.#victim(address, own) : this.#oldestIdle(address);
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
    const connections = this.#held.get(address);
    connections?.delete(connection);
    if (connections?.size === 0) this.#held.delete(address);
  }

  #add(address: string, connection: Connection): void {
    const connections = this.#held.get(address);
    if (connections === undefined) this.#held.set(address, new Set([connection]));
    else connections.add(connection);
    this.#addresses.set(connection, address);
  }

  /** Of an address that holds more, else of its own, else of whoever holds most. */
  #victim(address: string, own: number): Connection | undefined {
    return this.#oldestIdle(this.#largest(own)) ?? this.#oldestIdle(address) ?? this.#oldestIdle(this.#largest(0));
  }

  /** The address with most connections, of those that have an idle one and more than `own`; '' when there is none. */
  #largest(own: number): string {
    let [largest, most] = ['', own];
    for (const [address, connections] of this.#held) {
      if (connections.size <= most || this.#oldestIdle(address) === undefined) continue;
      largest = address;
      most = connections.size;
    }
    return largest;
  }

  #oldestIdle(address: string): Connection | undefined {
    for (const connection of this.#held.get(address) ?? []) if (connection.idle) return connection;
    return undefined;
  }
}
