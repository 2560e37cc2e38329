/**
 * A stand-in for the state of a Consul datacenter, and for what its HTTP API answers about it: it follows the API's
 * documentation (catalogue and health endpoints, indexes of a common log), and knows nothing else of Consul.
 */

export interface StandInInstance {
  readonly node: string;
  readonly nodeAddress: string;
  readonly id: string;
  readonly service: string;
  readonly address: string;
  readonly port: number;
  readonly tags?: readonly string[];
  readonly meta?: Readonly<Record<string, string>>;
  readonly weights?: { readonly Passing: number; readonly Warning: number };
  readonly kind?: string;
  /** The state of its own check; absent: it has none. */
  readonly status?: string;
}

export interface StandInAnswer {
  readonly index: number;
  readonly body: string;
}

/** What a blocking query waits for. */
export type Topic = 'services' | 'critical' | 'warning' | 'checks' | `service ${string}`;

/**
 * Between two indexes. An index that starts again begins with another number below this, so that it never belongs to
 * two states: nobody can tell these apart.
 */
const STEP = 100;

export class StandInRegistry {
  readonly datacenter: string;
  readonly #instances = new Map<string, StandInInstance>();
  readonly #byService = new Map<string, Set<string>>();
  /** Node → state of its check (`serfHealth`). */
  readonly #nodes = new Map<string, string>();
  readonly #serviceIndexes = new Map<string, number>();
  readonly #listeners = new Set<(topics: ReadonlySet<Topic>) => void>();
  readonly #bodies = new Map<string, string>();
  #index: number;
  /** How often the index started again. */
  #losses = 0;
  #servicesIndex: number;
  #checksIndex: number;

  constructor(datacenter = 'dc1', index = 10 * STEP) {
    this.datacenter = datacenter;
    this.#index = index;
    this.#servicesIndex = index;
    this.#checksIndex = index;
  }

  onChange(listener: (topics: ReadonlySet<Topic>) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  get instances(): readonly StandInInstance[] {
    return [...this.#instances.values()];
  }

  nodeStatus(node: string): string {
    return this.#nodes.get(node) ?? 'passing';
  }

  register(...instances: readonly StandInInstance[]): void {
    const topics = new Set<Topic>(['services']);
    for (const instance of instances) {
      const before = this.#instances.get(keyOf(instance));
      if (before !== undefined) this.#forget(before);
      this.#instances.set(keyOf(instance), instance);
      const keys = this.#byService.get(instance.service);
      if (keys === undefined) this.#byService.set(instance.service, new Set([keyOf(instance)]));
      else keys.add(keyOf(instance));
      for (const name of new Set([before?.service, instance.service]))
        if (name !== undefined) topics.add(`service ${name}`);
      if (before?.status !== instance.status) addStates(topics, before?.status, instance.status);
    }
    this.#changed(topics);
  }

  deregister(node: string, id: string): void {
    const before = this.#instances.get(keyOf({ node, id }));
    if (before === undefined) return;
    this.#instances.delete(keyOf(before));
    this.#forget(before);
    const topics = new Set<Topic>(['services', `service ${before.service}`]);
    if (before.status !== undefined) addStates(topics, before.status, undefined);
    this.#changed(topics);
  }

  /** Sets the state of an instance's check. */
  setStatus(node: string, id: string, status: string): void {
    const before = this.#instances.get(keyOf({ node, id }));
    if (before === undefined || before.status === status) return;
    this.#instances.set(keyOf(before), { ...before, status });
    const topics = new Set<Topic>([`service ${before.service}`]);
    addStates(topics, before.status, status);
    this.#changed(topics);
  }

  /** Sets the state of a node's check, which concerns all its services. */
  setNodeStatus(node: string, status: string): void {
    const topics = new Set<Topic>();
    addStates(topics, this.nodeStatus(node), status);
    this.#nodes.set(node, status);
    for (const instance of this.#instances.values())
      if (instance.node === node) topics.add(`service ${instance.service}`);
    this.#changed(topics);
  }

  /** The state is lost, as in a server without a data directory that starts again: also the index. */
  restartEmpty(): void {
    this.#instances.clear();
    this.#byService.clear();
    this.#nodes.clear();
    this.#startAgain(1);
    this.#changed(new Set(['services', 'critical', 'warning', 'checks']));
  }

  /** The same state with a lower index, as after a restore. */
  rewind(): void {
    this.#startAgain(2);
    this.#changed(new Set(['services', 'critical', 'warning', 'checks']));
  }

  /** Undefined for a path that it does not know. */
  answer(path: string): StandInAnswer | undefined {
    const [, service] = /^\/v1\/health\/service\/([^/]+)$/.exec(path) ?? [];
    if (service !== undefined) return this.#service(decodeURIComponent(service));
    const index = path === '/v1/catalog/services' ? this.#servicesIndex : this.#checksIndex;
    const make = LISTS[path];
    if (make === undefined) return undefined;
    const known = this.#bodies.get(path);
    const body = known ?? make(this);
    this.#bodies.set(path, body);
    return { index, body };
  }

  /** What a blocking query for the path waits for. */
  static topicOf(path: string): Topic {
    if (path === '/v1/catalog/services') return 'services';
    if (path.startsWith('/v1/health/service/'))
      return `service ${decodeURIComponent(path.slice('/v1/health/service/'.length))}`;
    const state = path.slice('/v1/health/state/'.length);
    return state === 'critical' || state === 'warning' ? state : 'checks';
  }

  #service(name: string): StandInAnswer {
    const entries = [...(this.#byService.get(name) ?? [])].flatMap((key) => this.#instances.get(key) ?? []);
    const body = entries.map((instance) => this.#entry(instance));
    return { index: this.#serviceIndexes.get(name) ?? this.#servicesIndex, body: JSON.stringify(body) };
  }

  #entry(instance: StandInInstance): unknown {
    const { node, nodeAddress, id, service, address, port, tags, meta, weights, kind } = instance;
    return {
      Node: {
        ID: '',
        Node: node,
        Address: nodeAddress,
        Datacenter: this.datacenter,
        TaggedAddresses: null,
        Meta: null,
      },
      Service: {
        ...(kind !== undefined && { Kind: kind }),
        ID: id,
        Service: service,
        Tags: tags ?? [],
        Address: address,
        Meta: meta ?? null,
        Port: port,
        Weights: weights ?? { Passing: 1, Warning: 1 },
        EnableTagOverride: false,
      },
      Checks: [nodeCheck(node, this.nodeStatus(node)), ...checkOfInstance(instance)],
    };
  }

  #forget(instance: StandInInstance): void {
    const keys = this.#byService.get(instance.service);
    keys?.delete(keyOf(instance));
    if (keys?.size === 0) this.#byService.delete(instance.service);
  }

  #startAgain(steps: number): void {
    this.#losses++;
    this.#index = steps * STEP + this.#losses;
    this.#serviceIndexes.clear();
    this.#servicesIndex = this.#index;
    this.#checksIndex = this.#index;
  }

  #changed(topics: Set<Topic>): void {
    this.#index += STEP;
    if (topics.has('services')) this.#servicesIndex = this.#index;
    if (topics.has('checks')) this.#checksIndex = this.#index;
    for (const topic of topics)
      if (topic.startsWith('service ')) this.#serviceIndexes.set(topic.slice('service '.length), this.#index);
    this.#bodies.clear();
    for (const listener of [...this.#listeners]) listener(topics);
  }
}

const LISTS: Readonly<Record<string, (registry: StandInRegistry) => string>> = {
  '/v1/catalog/services': ({ instances }) => {
    const tags = new Map<string, Set<string>>([['consul', new Set()]]);
    for (const instance of instances) {
      const known = tags.get(instance.service) ?? new Set();
      for (const tag of instance.tags ?? []) known.add(tag);
      tags.set(instance.service, known);
    }
    return JSON.stringify(Object.fromEntries([...tags].map(([name, all]) => [name, [...all]])));
  },
  '/v1/health/state/any': (registry) => JSON.stringify(checksOf(registry)),
  '/v1/health/state/critical': (registry) => JSON.stringify(checksOf(registry, 'critical')),
  '/v1/health/state/warning': (registry) => JSON.stringify(checksOf(registry, 'warning')),
};

function checksOf(registry: StandInRegistry, status?: string): unknown[] {
  const { instances } = registry;
  const nodes = [...new Set(instances.map(({ node }) => node))].map((node) =>
    nodeCheck(node, registry.nodeStatus(node)),
  );
  return [...nodes, ...instances.flatMap(checkOfInstance)].filter(
    (check) => status === undefined || check.Status === status,
  );
}

function nodeCheck(node: string, status: string) {
  return {
    Node: node,
    CheckID: 'serfHealth',
    Name: 'Serf Health Status',
    Status: status,
    ServiceID: '',
    ServiceName: '',
    ServiceTags: [],
  };
}

function checkOfInstance({ node, id, service, tags, status }: StandInInstance) {
  if (status === undefined) return [];
  const check = { Node: node, CheckID: `service:${id}`, Name: `Service '${service}' check`, Status: status };
  return [{ ...check, Notes: '', Output: 'checked', ServiceID: id, ServiceName: service, ServiceTags: tags ?? [] }];
}

function addStates(topics: Set<Topic>, ...states: readonly (string | undefined)[]): void {
  topics.add('checks');
  for (const state of states) if (state === 'critical' || state === 'warning') topics.add(state);
}

function keyOf({ node, id }: Pick<StandInInstance, 'node' | 'id'>): string {
  return `${node}\0${id}`;
}
