/**
 * Additional fields of the documents that the program derives from those of other APIs (Gateway API, Ingress). They are
 * part of the types only: no schema accepts them, so that no user's document can have them.
 */
import type { z } from 'zod';

/**
 * The same schema, with fields of derived documents in the type of its output.
 *
 * @example derivable<DerivedHttpMatch>()(httpMatch)
 */
export function derivable<Fields extends object>() {
  return <S extends z.ZodType>(schema: S) => schema as unknown as z.ZodType<z.output<S> & Readonly<Fields>, z.input<S>>;
}

/** A Secret in any namespace, whose use by the deriving document has been authorized. */
export interface SecretName {
  readonly namespace: string;
  readonly name: string;
}

export interface DerivedHttpMatch {
  /**
   * Matches whole path elements: `/a` matches `/a` and `/a/b`, but not `/ab`. Replaces `uri`. It has no `/` at its end,
   * and is not empty.
   */
  pathPrefix?: string;
}

export interface DerivedDestination {
  /**
   * Set if the destination does not exist: its share of requests receives HTTP 500, and its share of connections is
   * closed.
   */
  unusable?: true;
}

export interface DerivedRedirect {
  /**
   * The default port of the location, which is omitted there. It replaces the port of the request, which Envoy would
   * keep. Only set without `port` and `authority`.
   */
  impliedPort?: number;
  /** Replaces the matched prefix. */
  uriPrefix?: string;
  /** Replaces every match of an RE2 expression in the path. */
  uriRegexRewrite?: { readonly match: string; readonly rewrite: string };
}

export interface DerivedGateway {
  /** Whether it selects only proxies of its own namespace. */
  ownNamespace?: true;
  /**
   * Requests on HTTPS connections to one server that are for hosts of another server of the port receive HTTP 421.
   * Ports of services without a declared protocol get HTTP/1.1.
   */
  isolated?: true;
  /** The key pair that the gateway presents to servers whose rule of {@link DerivedDestinationRule} has TLS. */
  clientKeyPair?: SecretName;
}

export interface DerivedServerTls {
  /** Key pairs in Secrets, instead of `credentialName`. */
  keyPairs?: readonly SecretName[];
  /** PEM: the authorities that verify clients. */
  clientAuthorities?: string;
  /** Why the server closes its connections, for the log: it has no certificate, or cannot verify clients. */
  closed?: string;
}

export interface DerivedClientTls {
  /** PEM: the authorities that verify the server. */
  authorities?: string;
  /** Set if the settings are incomplete: no connection is made then. */
  unusable?: true;
}

export interface DerivedDestinationRule {
  /**
   * Only gateways read the rule, and only its TLS settings and `h2UpgradePolicy`. These replace those of other rules
   * for the host. The rule is in the namespace of the host's service.
   */
  gatewaysOnly?: true;
}
