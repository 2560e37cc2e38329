/**
 * The cost of the model without a server: the step from one snapshot to the next, the first snapshot of a large mesh,
 * and the mesh copy of a generation worker that was restarted.
 */
import { fileURLToPath } from 'node:url';
import { modelSettings } from '../../src/discovery/config/model-settings.ts';
import { defaultScopeId, Model } from '../../src/model/index.ts';
import { workerUrl } from '../../src/paths.ts';
import { MeshCopyLog } from '../../src/push/jobs/mesh-copy-log.ts';
import { WorkerSlot } from '../../src/push/jobs/worker-slot.ts';
import { defaultMeshConfig, defaultMeshNetworks } from '../../src/resources/index.ts';
import type { AnyResource } from '../../src/resources/kinds/types.ts';
import { defaultDiscoverySettings } from '../../src/settings/index.ts';
import type { Bench } from '../mesh.ts';
import { median } from '../results.ts';
import { changesOf, namespaceOf, nodeOf, podOf, routeOf, serviceOf, sliceOf } from '../world/resources.ts';

const NAMESPACES = 10;
const NODES = 100;
/** Endpoints of one slice, at most, as the orchestrator's controller makes them. */
const SLICE = 100;
/** Longest wait for a worker, ms. */
const TIMEOUT_MS = 60_000;

function empty(): Model {
  const mesh = defaultMeshConfig();
  const settings = { ...modelSettings(defaultDiscoverySettings(), mesh), useEndpointSlice: true };
  return Model.empty(settings, mesh, defaultMeshNetworks());
}

function modelOf(resources: readonly AnyResource[]): Model {
  const made = empty();
  made.apply({ changes: changesOf(resources), eventTime: 0 });
  return made;
}

/** A model whose namespaces all have proxies: their scopes are kept up to date. */
function inUse(resources: readonly AnyResource[]): Model {
  const made = modelOf(resources);
  for (let number = 0; number < NAMESPACES; number++) made.acquire(defaultScopeId(namespaceOf(number, NAMESPACES)));
  return made;
}

type Cells = (string | number | undefined)[];

interface Times {
  /** Steps that do not count, until the code is compiled. */
  readonly first: number;
  readonly median: number;
}

function times(values: readonly number[]): Times {
  const [first = Number.NaN, ...later] = values;
  return { first, median: median(later.length === 0 ? values : later) };
}

function timed(work: () => void): number {
  const started = performance.now();
  work();
  return performance.now() - started;
}

/** Steps that apply the resources that `change` returns for the number of the step. */
function steps(start: Model, rounds: number, change: (round: number) => readonly AnyResource[]): Times {
  const values: number[] = [];
  for (let round = 1; round <= rounds; round++) {
    const changes = changesOf(change(round));
    values.push(timed(() => start.apply({ changes, eventTime: 0 })));
  }
  return times(values);
}

/** The pods of a service become unready one after the other. */
function endpoint(endpoints: number, rounds: number): Times {
  const [namespace, service] = [namespaceOf(0, NAMESPACES), 'large'];
  const slices = Math.ceil(endpoints / SLICE);
  const slice = (index: number, broken: number): AnyResource =>
    sliceOf(namespace, service, index, { from: index * SLICE, count: SLICE }, broken);
  const start = inUse([
    serviceOf(namespace, service, 0),
    ...Array.from({ length: NODES }, (_, number) => nodeOf(number)),
    ...Array.from({ length: slices * SLICE }, (_, number) => podOf(namespace, service, number)),
    ...Array.from({ length: slices }, (_, index) => slice(index, 0)),
  ]);
  return steps(start, rounds, (round) => [slice(round % slices, 1 + Math.floor(round / slices))]);
}

/** One VirtualService among many changes. */
function route(routes: number, rounds: number): Times {
  const of = (number: number) => [namespaceOf(number, NAMESPACES), `svc-${number}`] as const;
  const numbers = Array.from({ length: routes }, (_, number) => number);
  const start = inUse([
    ...numbers.map((number) => serviceOf(...of(number), number)),
    ...numbers.map((number) => routeOf(...of(number), 0)),
  ]);
  return steps(start, rounds, (round) => [routeOf(...of((round * 7919) % routes), round)]);
}

/** Services of 20 pods each. */
function meshOf(pods: number): AnyResource[] {
  const perService = 20;
  const resources = Array.from({ length: NODES }, (_, number) => nodeOf(number));
  for (let number = 0; number * perService < pods; number++) {
    const [namespace, name] = [namespaceOf(number, NAMESPACES), `svc-${number}`];
    const from = number * perService;
    resources.push(serviceOf(namespace, name, number), sliceOf(namespace, name, 0, { from, count: perService }));
    for (let pod = from; pod < from + perService; pod++) resources.push(podOf(namespace, name, pod));
  }
  return resources;
}

function fromNothing(resources: readonly AnyResource[], rounds: number): Times {
  return times(Array.from({ length: rounds }, () => timed(() => modelOf(resources))));
}

interface Restart {
  /** CPU of the main thread. */
  readonly main: number;
  /** From the task that brings the mesh copy up to date to its answer, in a thread that has loaded its code. */
  readonly ready: number;
}

/** The cost of a worker that has lost its mesh copy, as after a crash. */
async function restart({ snapshot }: Model): Promise<Restart> {
  const slot = new WorkerSlot(fileURLToPath(workerUrl('generate')), (error) => {
    throw error;
  });
  try {
    await slot.run(new MeshCopyLog(empty().snapshot), { jobs: [] }, TIMEOUT_MS);
    slot.version = 0;
    const log = new MeshCopyLog(snapshot);
    const cpu = process.threadCpuUsage();
    const started = performance.now();
    const answer = await slot.run(log, { jobs: [] }, TIMEOUT_MS);
    const ready = performance.now() - started;
    if (answer.kind !== 'done') throw new Error(`the worker answers ${answer.kind}`);
    const { user, system } = process.threadCpuUsage(cpu);
    return { main: (user + system) / 1000, ready };
  } finally {
    await slot.close();
  }
}

export const model: Bench = {
  name: 'model',
  about: 'the model alone: an endpoint of 10,000, a route among 10,000, 20,000 pods, a worker that restarts',
  inProcess: true,
  async run({ options, progress }) {
    const { rounds } = options;
    const row = (what: string, { first, median: middle }: Times): Cells => [what, first, middle];
    const rows: Cells[] = [];
    for (const endpoints of [1000, 10_000]) {
      progress(`one endpoint of ${endpoints}`);
      rows.push(row(`one endpoint of a service with ${endpoints}`, endpoint(endpoints, 100 * rounds)));
    }
    for (const routes of [1000, 10_000]) {
      progress(`one route among ${routes}`);
      rows.push(row(`one route among ${routes} VirtualServices`, route(routes, 100 * rounds)));
    }
    const pods = 20_000;
    progress(`${pods} pods`);
    const resources = meshOf(pods);
    rows.push(row(`${pods} pods from nothing`, fromNothing(resources, rounds + 1)));
    const loaded = modelOf(resources);
    const restarts: Restart[] = [];
    for (let round = 0; round <= rounds; round++) restarts.push(await restart(loaded));
    rows.push(row(`worker restarted, ${pods} pods: CPU of the main thread`, times(restarts.map(({ main }) => main))));
    rows.push(row('… until its mesh copy is ready, wall time', times(restarts.map(({ ready }) => ready))));
    const columns = ['what', 'first ms', 'median ms'];
    return { rows: [], tables: [{ title: 'The model, without the server around it', columns, rows }] };
  },
};
