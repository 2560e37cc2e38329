/** Requests as the protocol machines take them; `src/xds/request` makes them of a stream's bytes. */
import type { NameSet } from './name-set.ts';

/**
 * Resource name → version, as sent by a reconnecting proxy. Equal content is the same object, so that it can be the key
 * of a memo.
 */
export type VersionMap = ReadonlyMap<string, string>;

/** The extensions of a proxy's node. */
export interface ExtensionList {
  /** Names of those that generation checks. */
  readonly checked: ReadonlySet<string>;
  /** How many the node has, at least one. */
  readonly count: number;
}

/** The fields that requests of both variants have. */
export interface AnyRequest {
  readonly typeUrl: string;
  /** Nonce of the response that the request answers; empty when it answers none. */
  readonly responseNonce: string;
  /** Message of `error_detail`; undefined unless the request is a NACK. */
  readonly nack: string | undefined;
  /** The encoded Node, when sent; a copy, without `extensions`. */
  readonly node: Buffer | undefined;
  /** Extensions of the node that were read before, from another request. */
  readonly extensions?: ExtensionList;
}

/** DiscoveryRequest of envoy/service/discovery/v3/discovery.proto. */
export interface SotwRequest extends AnyRequest {
  readonly versionInfo: string;
  readonly names: NameSet;
}

/** DeltaDiscoveryRequest of the same file. */
export interface DeltaRequest extends AnyRequest {
  readonly subscribe: NameSet;
  readonly unsubscribe: NameSet;
  readonly initialVersions: VersionMap;
}
