/** A source for Consul that reads a stand-in on a clock of the test, and what it has sent so far. */
import { fakeClock } from '../../../core/testing/fake-clock.ts';
import type { AnyResource, ResourceEvent, ResourceKey, ResourceProblem } from '../../../resources/index.ts';
import { keyOf } from '../../../resources/index.ts';
import { createConsulSource } from '../consul.ts';
import type { ConsulSourceOptions } from '../types.ts';
import { type InMemoryOptions, inMemoryConsul } from './in-memory-call.ts';
import type { StandInInstance, StandInRegistry } from './stand-in-registry.ts';

export const SETTINGS = {
  servers: [new URL('http://127.0.0.1:8500')],
  namespace: 'default',
  datacenters: [],
  consulNamespace: '',
  partition: '',
  tokenFile: '',
  caFile: '',
  consistency: 'default',
  waitMs: 60_000,
  timeoutMs: 10_000,
  maxRequests: 4,
  sweepQps: 100,
  holdMs: 900_000,
  maxServices: 1000,
  maxInstances: 10_000,
  maxBytes: 100_000_000,
  maxServiceBytes: 10_000_000,
  passingOnly: false,
} as const;

export function instance(service: string, id: string, more: Partial<StandInInstance> = {}): StandInInstance {
  const number = Number(id.replaceAll(/\D/g, '')) % 250;
  const node = `node-${number % 3}`;
  const base = { node, nodeAddress: `10.1.0.${number % 3}`, id, service, address: `10.0.0.${number}`, port: 8080 };
  return { ...base, meta: { protocol: 'http' }, status: 'passing', ...more };
}

interface SinkOptions {
  /** Called before the sink takes events. */
  readonly onSent?: () => void;
}

export function followRegistry(
  registry: StandInRegistry,
  options: Partial<ConsulSourceOptions> & Pick<InMemoryOptions, 'fault' | 'delayMs'> & SinkOptions = {},
) {
  const clock = fakeClock();
  const { fault, delayMs, onSent } = options;
  const outside = inMemoryConsul({
    registry,
    clock,
    ...(fault !== undefined && { fault }),
    ...(delayMs !== undefined && { delayMs }),
  });
  const lines: string[] = [];
  const write = (message: string): void => void lines.push(message);
  const log = { debug: () => undefined, info: write, warn: write, error: write };
  const base = { ...SETTINGS, cluster: 'Orchestrator', log, clock, random: () => 0.5 };
  // A getter among the options stays one.
  const settings = Object.defineProperties({ ...base }, Object.getOwnPropertyDescriptors(options));
  const source = createConsulSource(settings, { call: outside.call, pause: async () => undefined });
  const resources = new Map<ResourceKey, AnyResource>();
  const problems = new Map<string, ResourceProblem>();
  const events: ResourceEvent[] = [];
  const take = (event: ResourceEvent): void => {
    events.push(event);
    if (event.type === 'set') {
      resources.set(keyOf(event.resource), event.resource);
      problems.delete(keyOf(event.resource));
    } else if (event.type === 'delete') resources.delete(event.key);
    else if (event.type === 'invalid') problems.set(event.problem.id, event.problem);
    else problems.delete(event.id);
  };
  let isSynced = false;
  void source.synced.then(() => {
    isSynced = true;
  });
  source.start({
    apply: (batch) => {
      onSent?.();
      batch.forEach(take);
    },
    replace: (list) => {
      onSent?.();
      resources.clear();
      list.events.forEach(take);
    },
    changing: () => undefined,
  });
  /** `address` or `address!` for an endpoint that is not used, of each document of a service. */
  const endpoints = (service: string): readonly string[] =>
    [...resources.values()].flatMap((resource) => {
      if (resource.kind !== 'ServiceEntry') return [];
      const { hosts, endpoints: written = [] } = resource.content as {
        hosts: string[];
        endpoints?: { address?: string }[];
      };
      if (hosts[0] !== `${service}.service.consul`) return [];
      const unhealthy = new Set(resource.meta.unhealthyEndpoints);
      return written.map(({ address = '' }, index) => (unhealthy.has(index) ? `${address}!` : address));
    });
  return { source, clock, resources, problems, events, lines, endpoints, isSynced: () => isSynced, ...outside };
}
