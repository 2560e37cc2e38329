/** What a view has to generate, what it takes a job with, and what the job changes in its placements `P`. */
import type { Push } from '../push.ts';
import type { HostSelection } from './later-hosts.ts';
import type { SelectedUnits } from './selected-units.ts';
import type { ChangedTypes, PlacedBundles } from './view-bundles.ts';
import type { BuildFailure } from './view-endpoints.ts';

/** The units that a view still has to generate. */
export interface Dirty {
  readonly units: SelectedUnits;
  /** The push of the changes that touched them. */
  push: Push;
}

/** The state with which a running job was taken. */
export interface Taken<P> {
  readonly dirty: Dirty | undefined;
  readonly placed: readonly P[];
  /** It is only for what no proxy has yet: see {@link OnNeed}. */
  readonly isStep: boolean;
  /** What virtual hosts it generates. */
  readonly hosts: HostSelection | undefined;
}

/** Names of resources that were generated for the first time, because proxies need them. */
export interface FirstNames {
  readonly cds: readonly string[];
  readonly vhds: readonly string[];
}

export interface CommitResult<P extends PlacedBundles> {
  /** Types whose bundle was replaced, by placement. */
  readonly changed: ChangedTypes<P>;
  /** The push of the changes that the job was for; undefined if there were none. */
  readonly push: Push | undefined;
  /** Units that could not be generated, and keep their last good version. */
  readonly failures: readonly BuildFailure[];
  readonly first: FirstNames;
  /** Names of hosts of which it is known now which virtual host they have: perhaps one that was there before. */
  readonly found: ReadonlySet<string>;
}

export interface EndpointsResult<P> {
  /** Placements with changed endpoints. */
  readonly changed: readonly P[];
  /** The names of the endpoints. */
  readonly names: readonly string[];
  readonly failures: readonly BuildFailure[];
}
