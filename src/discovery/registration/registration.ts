/**
 * Registration of workloads that run outside the orchestrator: while a proxy is connected whose node names a
 * WorkloadGroup (AUTO_REGISTER_GROUP) that fits its certificate, its workload has a WorkloadEntry. Every mesh loads
 * this file; the registry is loaded when there is a WorkloadGroup.
 */
import { messageOf } from '../../core/errors.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import { getScope } from '../../logging/index.ts';
import type { ModelChange } from '../../model/index.ts';
import type { WorkloadStream } from '../../xds/index.ts';
import type { RegisteringNode, RegisteringStream, RegistrationOptions } from './entries.ts';
import type { WorkloadRegistry } from './registry.ts';

/** Maximum length of an agent's reason, which the status of a WorkloadEntry and the log contain. */
const LONGEST_REASON = 1024;
/** Characters. No WorkloadGroup has a longer name, and the log contains the one that a proxy states. */
const LONGEST_GROUP = 254;

/** What registration reads of the node of any proxy. */
type ConnectedNode = Omit<RegisteringNode, 'workloadGroup'> & Pick<ProxyNode, 'workloadGroup'>;

type Registry = Pick<WorkloadRegistry, 'opened' | 'changed' | 'ended' | 'published' | 'close'>;

const NOT_LOADED: Registry = { opened() {}, changed() {}, ended() {}, published() {}, close: async () => {} };

export class WorkloadRegistration {
  readonly #options: RegistrationOptions;
  readonly #streams = new Set<RegisteringStream>();
  #registry = NOT_LOADED;
  #isNeeded = false;
  #loading = Promise.resolve();
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
    this.#registry.opened(stream);
    return {
      health: (problem) => {
        stream.problem = problem === undefined ? '' : problem.slice(0, LONGEST_REASON) || 'unhealthy';
        this.#registry.changed(stream);
      },
      disconnected: () => {
        this.#streams.delete(stream);
        this.#registry.ended(stream);
      },
    };
  }

  /** There is a new snapshot. */
  published({ resources }: Pick<ModelChange, 'resources'>): void {
    this.#registry.published(resources);
    const groups = this.#options.snapshot().resources('WorkloadGroup');
    if (this.#isNeeded || this.#closed || groups.size === 0) return;
    this.#isNeeded = true;
    this.#loading = this.#load();
  }

  /** Resolves when the workloads of the last run are registered, if the first snapshot has their groups. */
  async restored(): Promise<void> {
    await this.#loading;
  }

  async #load(): Promise<void> {
    try {
      const { createWorkloadRegistry } = await import('./registry.ts');
      if (this.#closed) return;
      const registry = await createWorkloadRegistry(this.#options);
      this.#registry = registry;
      for (const stream of this.#streams) registry.opened(stream);
    } catch (error) {
      getScope('model').error(`workloads cannot be registered: ${messageOf(error)}`);
    }
  }

  /** Called when all streams have ended. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#loading;
    await this.#registry.close();
  }
}
