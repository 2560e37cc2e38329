/**
 * Serves the TLS Secrets of one namespace to a gateway (ENABLE_INGRESS_GATEWAY_SDS). The agent reads them from the API
 * server with its own service account, so that the control plane needs no right to them. Only Secrets that Envoy
 * requests are read, each by a list and a watch of its name. The last good version stays in force when a Secret is
 * deleted or when Envoy would refuse its content.
 */
import type { Clock } from '../../core/clock.ts';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { createFailureLog, type Log } from '../../core/log.ts';
import { tlsSecretProblems } from '../../core/tls/tls-secret-problems.ts';
import {
  authoritiesNames,
  authorityBytes,
  keyPairBytes,
  parseSdsName,
  type SecretContent,
} from '../../core/tls/tls-secrets.ts';
import {
  type ClusterAccess,
  Connection,
  Informer,
  inClusterAccess,
  type KubernetesObject,
  SECRETS,
} from '../../kubernetes/index.ts';
import { type RequestedName, RequestedNames } from './requested-names.ts';
import type { SecretResource } from './sds-protocol.ts';
import { authoritiesSecret, certificateSecret } from './secret-table.ts';

/** Far more than a gateway has; each costs the API server a watch or two. */
const MAX_FOLLOWED = 200;

export interface GatewaySecrets {
  /** Starts to follow the Secret of an SDS name. False for other names, and when there are too many. */
  follow(name: string): boolean;
  /** The secrets that could be read. */
  current(): Iterable<SecretResource>;
  close(): Promise<void>;
}

export interface GatewaySecretsOptions {
  readonly namespace: string;
  readonly access: ClusterAccess;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  readonly log: Log;
  /** Called when a secret was added, replaced or removed. */
  readonly changed: () => void;
  /** Whether any stream is subscribed to a name. */
  readonly isWanted: (name: string) => boolean;
}

/** The API server of this Pod. Rejects with a CtlError of one line when this is not a Pod with a service account. */
export async function podAccess(env: Readonly<Record<string, string | undefined>>): Promise<ClusterAccess> {
  const access = await inClusterAccess(env);
  if (access !== undefined) return access;
  const message = 'Secrets cannot be read, because KUBERNETES_SERVICE_HOST does not name an API server';
  throw new CtlError('failed_precondition', message, { field: 'ENABLE_INGRESS_GATEWAY_SDS' });
}

export function createGatewaySecrets(options: GatewaySecretsOptions): GatewaySecrets {
  return new FollowedSecrets(options);
}

interface Followed extends RequestedName {
  readonly what: 'key pair' | 'authorities';
  /** Names of the Secrets that may contain it, in order of precedence. */
  readonly secrets: readonly string[];
}

class FollowedSecrets implements GatewaySecrets {
  readonly #options: GatewaySecretsOptions;
  readonly #connection: Connection;
  readonly #names: RequestedNames<Followed>;
  readonly #watched = new Map<string, Informer<SecretContent>>();
  readonly #closing = new Set<Promise<void>>();
  #isClosed = false;

  constructor(options: GatewaySecretsOptions) {
    const { access, clock, random, log, changed, isWanted } = options;
    this.#options = options;
    this.#connection = new Connection({ access, clock, random, userAgent: 'ctl-agent' });
    const lost = createFailureLog(log, 'the API server cannot be reached', 'the API server can be reached again');
    this.#connection.observe({ lost: (reason) => lost.failed(reason), reached: () => lost.succeeded() });
    this.#names = new RequestedNames<Followed>({
      max: MAX_FOLLOWED,
      what: 'Secrets',
      clock,
      log,
      entryOf(name) {
        const parsed = parseSdsName(name);
        if (parsed === undefined) return undefined;
        const secrets = parsed.what === 'key pair' ? [parsed.name] : authoritiesNames(parsed.name);
        const state = createFailureLog(log, `${name} cannot be used`, `${name} is usable`);
        return { what: parsed.what, secrets, state, resource: undefined };
      },
      added: (name, entry) => {
        for (const secret of entry.secrets) this.#watch(secret);
        // Another name may already have caused the Secret to be read.
        if (this.#update(name, entry)) queueMicrotask(changed);
      },
      check: async () => {
        this.#unwatchUnused();
        return false;
      },
      changed,
      isWanted,
    });
  }

  follow(name: string): boolean {
    return this.#names.follow(name);
  }

  current(): Iterable<SecretResource> {
    return this.#names.current();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const secret of [...this.#watched.keys()]) this.#unwatch(secret);
    await Promise.all([this.#names.close(), ...this.#closing]);
    this.#connection.close();
  }

  #watch(secret: string): void {
    if (this.#watched.has(secret)) return;
    const { namespace, log } = this.#options;
    const what = `Secret ${namespace}/${secret}`;
    const failures = createFailureLog(log, `${what} cannot be read`, `${what} can be read again`);
    const informer = new Informer<SecretContent>({
      connection: this.#connection,
      type: SECRETS,
      namespace,
      name: secret,
      convert: decodeContent,
      onChange: () => this.#changed(secret),
      failures: { ...failures, failed: (reason) => failures.failed(`${missingRight(reason, namespace)}${reason}`) },
    });
    this.#watched.set(secret, informer);
    informer.start();
  }

  #unwatch(secret: string): void {
    const closed = this.#watched.get(secret)?.close() ?? Promise.resolve();
    this.#watched.delete(secret);
    const closing = closed.finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }

  #changed(secret: string): void {
    const named = this.#names.all().filter(([, { secrets }]) => secrets.includes(secret));
    const isNew = named.map(([name, entry]) => this.#update(name, entry));
    if (isNew.includes(true) && !this.#isClosed) this.#options.changed();
  }

  /** Encodes a secret from the Secrets that are known. Returns true when it has changed. */
  #update(name: string, entry: Followed): boolean {
    const found = this.#find(entry);
    if (found === undefined) return false;
    try {
      const resource = this.#encode(name, entry, found);
      entry.state.succeeded();
      const isNew = resource.version !== entry.resource?.version;
      entry.resource = resource;
      return isNew;
    } catch (error) {
      const kept = entry.resource === undefined ? '' : '; the last good version stays in use';
      entry.state.failed(`${oneLineOf(error)}${kept}`);
      return false;
    }
  }

  /** The first Secret that exists; '' when none of them exists, undefined while that is not known. */
  #find({ secrets }: Followed): string | undefined {
    const { namespace } = this.#options;
    for (const secret of secrets) {
      const watched = this.#watched.get(secret);
      if (watched?.isSynced !== true) return undefined;
      if (watched.get(namespace, secret) !== undefined) return secret;
    }
    return '';
  }

  #encode(name: string, { what, secrets }: Followed, secret: string): SecretResource {
    const { namespace } = this.#options;
    const content = this.#watched.get(secret)?.get(namespace, secret);
    if (content === undefined)
      throw new CtlError('not_found', `there is no Secret ${namespace}/${secrets.join(' or ')}`);
    const label = `Secret ${namespace}/${secret}`;
    const [problem] = tlsSecretProblems(content);
    if (problem !== undefined) {
      const { entry, message } = problem;
      throw new CtlError('invalid_argument', `${label}: ${entry === undefined ? '' : `${entry}: `}${message}`);
    }
    if (what === 'key pair') {
      const pair = keyPairBytes(content);
      if (pair !== undefined) return certificateSecret(name, pair);
      throw new CtlError('invalid_argument', `${label} has no key pair (tls.crt and tls.key, or cert and key)`);
    }
    const authorities = authorityBytes(content);
    if (authorities !== undefined) return authoritiesSecret(name, authorities.trusted, authorities.revoked);
    throw new CtlError('invalid_argument', `${label} has no CA certificates for clients (ca.crt or cacert)`);
  }

  #unwatchUnused(): void {
    const used = new Set(this.#names.all().flatMap(([, { secrets }]) => secrets));
    for (const secret of [...this.#watched.keys()]) if (!used.has(secret)) this.#unwatch(secret);
  }
}

function missingRight(reason: string, namespace: string): string {
  if (!reason.startsWith('HTTP 403')) return '';
  return `the service account of this Pod needs the rights to list and watch secrets in namespace ${namespace}: `;
}

function decodeContent({ type, data }: KubernetesObject): SecretContent {
  return {
    ...(typeof type === 'string' ? { type } : {}),
    // The API server returns base64 strings by name.
    ...(typeof data === 'object' && data !== null ? { data: data as Readonly<Record<string, string>> } : {}),
  };
}
