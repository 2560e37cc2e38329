/**
 * Tasks that one of all replicas does, such as writing statuses: each has a Lease in the program's namespace,
 * `meshd-<task>`, and `meshd-<task>-<REVISION>` for a revision other than `default`.
 */
import { randomUUID } from 'node:crypto';
import { systemClock } from '../../core/clock.ts';
import { InternalError } from '../../core/errors.ts';
import type { LeaderStatus } from '../../debug/index.ts';
import { createLeaseAccess, type KubernetesClient, LeaderElection } from '../../kubernetes/index.ts';
import { getScope } from '../../logging/index.ts';
import type { DiscoverySettings, Environment } from '../../settings/index.ts';
import { replicaName } from '../process/replica.ts';
import { revisionSuffix } from '../process/revision.ts';

/** Runs while this replica leads the task. `signal` aborts as soon as it no longer does. */
export type Lead = (signal: AbortSignal) => Promise<void> | void;

export interface LeaderTaskOptions {
  /**
   * Whether the replicas of all revisions elect one leader, because the task writes objects that they share. Default
   * false: each revision has a leader.
   */
  readonly acrossRevisions?: boolean;
}

export interface LeaderTask {
  /** Whether this replica leads the task now. */
  readonly isLeading: boolean;
  /** Ends the task and releases the Lease. */
  close(): Promise<void>;
}

export interface Leadership {
  /** The name of this replica in the Leases. */
  readonly identity: string;
  /**
   * Takes part in the election for a task until it is closed. A write may reach the API server after the leader has
   * changed, so tasks only make changes that are conditional on the version (`metadata.resourceVersion`) or that the
   * next leader repairs.
   */
  run(task: string, lead: Lead, options?: LeaderTaskOptions): LeaderTask;
  status(): readonly LeaderStatus[];
  /** Gives all Leases up. */
  close(): Promise<void>;
}

/** @throws CtlError when REVISION cannot be part of a name */
export function createLeadership(
  client: KubernetesClient,
  { namespace, revision }: Pick<DiscoverySettings, 'namespace' | 'revision'>,
  env: Environment,
): Leadership {
  // A restarted container has the name of its Pod again, and must not take itself for the leader that it was before.
  const identity = `${replicaName(env)}_${randomUUID()}`;
  const suffix = revisionSuffix(revision);
  const elections = new Map<string, { readonly lease: string; readonly election: LeaderElection }>();
  return {
    identity,
    run(task, lead, { acrossRevisions = false } = {}) {
      if (elections.has(task)) throw new InternalError(`the leader's task ${task} is run twice`);
      const name = `meshd-${task}${acrossRevisions ? '' : suffix}`;
      const [clock, random, log] = [systemClock, Math.random, getScope('orch')];
      const lease = createLeaseAccess({ client, namespace, name, log });
      const election = new LeaderElection({ lease, identity, clock, random, now: Date.now, log, lead });
      elections.set(task, { lease: lease.name, election });
      election.start();
      return {
        get isLeading() {
          return election.isLeading;
        },
        async close() {
          await election.close();
          elections.delete(task);
        },
      };
    },
    status: () =>
      [...elections].map(([task, { lease, election }]) => {
        return { task, lease, leading: election.isLeading, holder: election.holder };
      }),
    async close() {
      await Promise.all([...elections.values()].map(({ election }) => election.close()));
      elections.clear();
    },
  };
}
