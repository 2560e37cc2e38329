/** Controllers that run where this replica leads: they write what the translation computes to the API server. */
import type { TokenBucket } from '../../core/fairness/token-bucket.ts';
import { untilAborted } from '../../core/process/until-aborted.ts';
import { getScope } from '../../logging/index.ts';
import type { StatusAccess } from '../../object-status/index.ts';
import type { MeshConfig, ResourceKey } from '../../resources/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import type { Cluster } from '../clusters/cluster.ts';
import type { Leadership, LeaderTask, LeaderTaskOptions } from '../clusters/leadership.ts';
import { readNamespaces } from '../pipeline/intake.ts';
import type { Translation } from '../pipeline/translation.ts';

export interface ControllerInputs {
  readonly settings: DiscoverySettings;
  readonly cluster: Pick<Cluster, 'client' | 'leadership'>;
  readonly translation: Translation;
  /** The mesh configuration at startup. */
  readonly mesh: MeshConfig;
  /** Limits the writes of statuses by all controllers together. */
  readonly statusBudget: TokenBucket;
}

export interface LeaderController {
  start(): void;
  /** The desired statuses of these keys have changed. */
  changed(keys: readonly string[]): void;
  /** Nothing is written after it has resolved. */
  close(): Promise<void>;
}

/** The options that all controllers that write statuses share. */
export function statusOptions({ settings, cluster, mesh, statusBudget }: ControllerInputs): StatusAccess {
  return {
    client: cluster.client,
    namespaces: readNamespaces(settings, mesh),
    statusBudget,
    now: Date.now,
    statusLog: getScope('status'),
  };
}

export interface ControllerTask<C> extends LeaderTask {
  /** The desired statuses of these keys have changed. */
  readonly changed: (keys: ReadonlySet<ResourceKey>) => void;
  /** The controller while this replica leads. */
  readonly running: () => C | undefined;
}

/** Takes part in the election for a task; runs a new controller whenever this replica leads. */
export function runWhileLeading<C extends LeaderController>(
  leadership: Leadership,
  task: string,
  create: () => C,
  options: LeaderTaskOptions = {},
): ControllerTask<C> {
  let running: C | undefined;
  const lead = async (signal: AbortSignal): Promise<void> => {
    const controller = create();
    running = controller;
    controller.start();
    await untilAborted(signal);
    running = undefined;
    await controller.close();
  };
  const elected = leadership.run(task, lead, options);
  return {
    get isLeading() {
      return elected.isLeading;
    },
    close: () => elected.close(),
    changed: (keys) => running?.changed([...keys]),
    running: () => running,
  };
}
