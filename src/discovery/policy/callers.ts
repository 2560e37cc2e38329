/**
 * Who calls the policy services: a proxy of a namespace decides and records for this namespace only. On the secured
 * address its certificate says which one; on a loopback address callers are trusted, and say it themselves.
 */
import { CtlError } from '../../core/errors.ts';
import { spiffeUri } from '../../core/identity.ts';
import { isLoopbackAddress } from '../../core/network/loopback.ts';
import { POLICY_NAMESPACE_METADATA } from '../../core/proxy.ts';
import type { CallHead, ConnectionInfo } from '../../grpc/index.ts';
import type { CallerRecord } from '../../policy/index.ts';
import { type Authentication, credentialsOfCall } from '../../security/index.ts';

/**
 * A connection with a certificate is authenticated again after this time, ms: the certificate may have expired or its
 * root been removed. Calls with a token are authenticated one by one: each may have another token.
 */
const VALID_MS = 10_000;

/** Namespaces that one connection of a loopback address speaks for: a gateway in front of tests may have several. */
const MAX_NAMESPACES = 64;
const NAMESPACE = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

interface Verified {
  readonly record: CallerRecord;
  /** Monotonic ms. */
  readonly until: number;
}

export class PolicyCallers {
  readonly #callers: Authentication;
  readonly #now: { readonly monotonic: () => number; readonly wall: () => number };
  readonly #verified = new WeakMap<ConnectionInfo, Verified>();
  readonly #claimed = new WeakMap<ConnectionInfo, Map<string, CallerRecord>>();
  /** Equal callers have one record, so that their connections share what is known of them. */
  readonly #records = new Map<string, WeakRef<CallerRecord>>();

  constructor(callers: Authentication, now: { readonly monotonic: () => number; readonly wall: () => number }) {
    this.#callers = callers;
    this.#now = now;
  }

  /** The caller that is known by the connection, without a delay; undefined: see {@link verify}. */
  known(call: CallHead): CallerRecord | undefined {
    const verified = this.#verified.get(call.connection);
    if (verified !== undefined) return verified.until > this.#now.monotonic() ? verified.record : undefined;
    return call.connection.secured === undefined ? this.#claim(call) : undefined;
  }

  /** Rejects with CtlError unauthenticated, unavailable or permission_denied. */
  async verify(call: CallHead): Promise<CallerRecord> {
    const credentials = credentialsOfCall(call);
    if (credentials === undefined) {
      const claimed = this.#claim(call);
      if (claimed !== undefined) return claimed;
      const message = 'decisions and records are served on the secure gRPC address and to loopback addresses only';
      throw new CtlError('unauthenticated', message);
    }
    const { identity, by, expiresAt } = await this.#callers.authenticate(credentials);
    const uri = spiffeUri(identity);
    const { connection } = call;
    const record = this.#shared({
      key: uri,
      namespace: identity.namespace,
      principal: uri.slice('spiffe://'.length),
      address: connection.address,
    });
    const { monotonic, wall } = this.#now;
    const until = monotonic() + Math.min(VALID_MS, expiresAt - wall());
    if (by === 'certificate') this.#verified.set(connection, { record, until });
    return record;
  }

  #claim({ connection, metadata }: CallHead): CallerRecord | undefined {
    if (connection.secured !== undefined || !isLoopbackAddress(connection.address)) return undefined;
    const [namespace = '', ...more] = metadata.get(POLICY_NAMESPACE_METADATA);
    if (more.length > 0 || !NAMESPACE.test(namespace)) return undefined;
    const claimed = this.#claimed.get(connection) ?? new Map<string, CallerRecord>();
    this.#claimed.set(connection, claimed);
    const known = claimed.get(namespace);
    if (known !== undefined) return known;
    if (claimed.size >= MAX_NAMESPACES) return undefined;
    const record = this.#shared({ key: `loopback/${namespace}`, namespace, address: connection.address });
    claimed.set(namespace, record);
    return record;
  }

  #shared(record: CallerRecord): CallerRecord {
    const key = `${record.key} ${record.address}`;
    const known = this.#records.get(key)?.deref();
    if (known !== undefined) return known;
    if (this.#records.size > 10_000) {
      for (const [name, reference] of this.#records) if (reference.deref() === undefined) this.#records.delete(name);
    }
    this.#records.set(key, new WeakRef(record));
    return record;
  }
}
