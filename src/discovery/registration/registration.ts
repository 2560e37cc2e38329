/**
 * Registration of workloads that run outside the orchestrator: while a proxy is connected whose node names a
 * WorkloadGroup (AUTO_REGISTER_GROUP) that fits its certificate, its workload has a WorkloadEntry. This file is what
 * every mesh has of it; the registry is loaded when there is a WorkloadGroup.
 */
import { messageOf } from '../../core/errors.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import { getScope } from '../../logging/index.ts';
import type { ModelChange } from '../../model/index.ts';
import type { WorkloadStream } from '../../xds/index.ts';
import type { RegisteringNode, RegisteringStream, RegistrationOptions } from './entries.ts';
import type { WorkloadRegistry } from './registry.ts';

/** Of a reason that an agent sends: the status of a WorkloadEntry, and the log, contain it. */
const LONGEST_REASON = 1024;
/** Characters. No WorkloadGroup has a longer name, and the log contains the one that a proxy states. */
const LONGEST_GROUP = 254;

/** What registration reads of the node of any proxy. */
type ConnectedNode = Omit<RegisteringNode, 'workloadGroup'> & Pick<ProxyNode, 'workloadGroup'>;

export class WorkloadRegistration {
  readonly #options: RegistrationOptions;
  readonly #streams = new Set<RegisteringStream>();
  #snapshot: ModelChange['snapshot'] | undefined;
  #registry: WorkloadRegistry | undefined;
  #loading: Promise<void> | undefined;
  #closed = false;

  constructor(options: RegistrationOptions) {
    this.#options = options;
  }

  /** See `WorkloadConnected`. */
  connected(node: ConnectedNode): Required<Pick<WorkloadStream, 'health' | 'disconnected'>> | undefined {
    if (node.workloadGroup === undefined || this.#closed) return undefined;
    const stream: RegisteringStream = {
      node: { ...node, workloadGroup: node.workloadGroup.slice(0, LONGEST_GROUP) },
      connectedAt: Date.now(),
      problem: undefined,
    };
    this.#streams.add(stream);
    this.#registry?.opened(stream);
    return {
      health: (problem) => {
        stream.problem = problem === undefined ? '' : problem.slice(0, LONGEST_REASON) || 'unhealthy';
        this.#registry?.changed(stream);
      },
      disconnected: () => {
        this.#streams.delete(stream);
        this.#registry?.ended(stream);
      },
    };
  }

  /** There is a new snapshot. */
  published({ snapshot, resources }: Pick<ModelChange, 'snapshot' | 'resources'>): void {
    this.#snapshot = snapshot;
    if (this.#registry !== undefined) this.#registry.published(resources);
    else if (snapshot.resources('WorkloadGroup').size > 0 && !this.#closed) this.#loading ??= this.#load();
  }

  /** Resolves when the workloads of the last run are registered, if the first snapshot has their groups. */
  async restored(): Promise<void> {
    await this.#loading;
  }

  /** The program is about to end its streams. */
  stopping(): void {
    this.#registry?.stopping();
  }

  async #load(): Promise<void> {
    const { settings, cluster, apply } = this.#options;
    try {
      const { createWorkloadRegistry } = await import('./registry.ts');
      if (this.#closed) return;
      this.#registry = await createWorkloadRegistry({ settings, cluster, apply, snapshot: () => this.#snapshot });
      for (const stream of this.#streams) this.#registry.opened(stream);
    } catch (error) {
      getScope('model').error(`workloads cannot be registered: ${messageOf(error)}`);
    }
  }

  /** Called when all streams have ended. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#loading;
    await this.#registry?.close();
  }
}
