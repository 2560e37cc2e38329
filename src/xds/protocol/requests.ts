/** Requests as the protocol machines take them; `src/xds/request` makes them of a stream's bytes. */
import type { NameSet } from './name-set.ts';

/** Resource name → version, as a reconnecting proxy sends it. Equal content is one object, so that it can be a memo's key. */
export type VersionMap = ReadonlyMap<string, string>;

/** DiscoveryRequest of envoy/service/discovery/v3/discovery.proto. */
export interface SotwRequest {
  readonly typeUrl: string;
  readonly versionInfo: string;
  readonly responseNonce: string;
  readonly names: NameSet;
  /** Message of `error_detail`; undefined unless the request is a NACK. */
  readonly nack: string | undefined;
  /** The encoded Node, when sent; a copy. */
  readonly node: Buffer | undefined;
}

/** DeltaDiscoveryRequest of the same file. */
export interface DeltaRequest {
  readonly typeUrl: string;
  readonly responseNonce: string;
  readonly subscribe: NameSet;
  readonly unsubscribe: NameSet;
  readonly initialVersions: VersionMap;
  readonly nack: string | undefined;
  readonly node: Buffer | undefined;
}
