/** The answer of a preview: which proxies are sent what, added up by workload and by resource. */
import type { Slices } from '../core/slices.ts';
import type { ChangedResource, PreviewResult, Session, TouchedPart } from '../push/index.ts';
import type { UnreachedRoutes } from '../resources/index.ts';
import type { ComparedEndpoints } from './endpoints.ts';
import type { PolicyOutcomes } from './policies.ts';
import type { DocumentOutcome, PreviewAnswer, ResourceOutcome, WorkloadOutcome } from './types.ts';

/** Entries listed of each kind. */
const MAX_LISTED = 200;
const MAX_DOCUMENTS = 2000;
const MAX_PROBLEMS = 32;

export interface Compared {
  readonly parts: readonly TouchedPart[];
  readonly generated: PreviewResult;
  readonly endpoints: ComparedEndpoints;
}

export interface AnswerInputs {
  readonly version: number;
  readonly documents: readonly DocumentOutcome[];
  /** Proxies that the caller may see. */
  readonly connected: number;
  readonly compared: Compared;
  readonly unreached: UnreachedRoutes;
  readonly policies: PolicyOutcomes;
  readonly notes: readonly string[];
}

interface Workload {
  readonly namespace: string;
  readonly workload: string;
  proxies: number;
  bytes: number;
}

/** Yields after each placement of a part. */
export function* answerOf({
  version,
  documents,
  connected,
  compared,
  notes,
  unreached,
  policies,
}: AnswerInputs): Slices<PreviewAnswer> {
  const tally = new Tally();
  yield* tally.add(compared);
  const { list, workloads } = tally;
  const left = compared.parts.filter((_, index) => !isCompared(compared, index));
  const proxies = left.reduce((sum, { placements }) => sum + count(placements), 0);
  return {
    version,
    documents: documents.slice(0, MAX_DOCUMENTS),
    proxies: { connected, touched: tally.touched, workloads: workloads.slice(0, MAX_LISTED) },
    resources: {
      added: list.filter(({ effect }) => effect === 'added').length,
      changed: list.filter(({ effect }) => effect === 'changed').length,
      removed: list.filter(({ effect }) => effect === 'removed').length,
      bytesPushed: tally.bytes,
      list: list.slice(0, MAX_LISTED),
    },
    unreachedRoutes: unreached.routes.slice(0, MAX_LISTED),
    policies: policies.list.slice(0, MAX_LISTED),
    problems: [...new Set(compared.generated.views.flatMap(({ failures }) => failures))].slice(0, MAX_PROBLEMS),
    notes: [
      ...notes,
      ...(tally.onDemand > 0
        ? [`proxies on demand are counted whether they hold what changes or not: ${tally.onDemand}`]
        : []),
      ...(left.length > 0 ? [`there was no time to compare parts of the configuration of ${proxies} proxies`] : []),
      ...(unreached.left > 0 ? [`not all routes of ${unreached.left} VirtualServices are compared`] : []),
      ...(policies.left > 0 ? [`policies of ${policies.left} proxies are not compared`] : []),
      ...more('documents', documents.length, MAX_DOCUMENTS),
      ...more('workloads', workloads.length, MAX_LISTED),
      ...more('resources', list.length, MAX_LISTED),
      ...more('routes that are not reached', unreached.routes.length, MAX_LISTED),
      ...more('effects of policies', policies.list.length, MAX_LISTED),
    ],
  };
}

function more(what: string, all: number, listed: number): string[] {
  return all > listed ? [`${all - listed} more ${what} are not listed`] : [];
}

function count(placements: TouchedPart['placements']): number {
  return placements.reduce((sum, { sessions }) => sum + sessions.length, 0);
}

function isCompared({ generated, endpoints }: Compared, index: number): boolean {
  return generated.views[index]?.compared === true && endpoints.parts[index] !== undefined;
}

/** Sums over proxies. Equal placements are counted together, so the cost does not grow with proxies times resources. */
class Tally {
  bytes = 0;
  readonly #touched = new Set<Session>();
  /** Those of them whose parts that change are on demand. */
  readonly #onDemand = new Set<Session>();
  readonly #workloads = new Map<string, Workload>();
  /** Number of proxies that are sent a change. */
  readonly #proxies = new Map<ChangedResource, number>();

  *add({ parts, generated, endpoints }: Compared): Slices<void> {
    for (const [index, part] of parts.entries()) {
      const { placements } = part;
      const outcome = generated.views[index];
      const ofEndpoints = endpoints.parts[index];
      for (const [at, { sessions }] of placements.entries()) {
        const numbers = [...(outcome?.common ?? []), ...(outcome?.placed[at] ?? [])];
        const changes = [
          ...numbers.flatMap((number) => generated.resources[number] ?? []),
          ...(ofEndpoints?.[at] ?? []).flatMap((number) => endpoints.changes.all[number] ?? []),
        ];
        this.#add(sessions, changes);
        if (changes.length > 0 && isOnDemand(part)) for (const session of sessions) this.#onDemand.add(session);
        yield;
      }
    }
  }

  get onDemand(): number {
    return this.#onDemand.size;
  }

  get touched(): number {
    return this.#touched.size;
  }

  get workloads(): readonly WorkloadOutcome[] {
    return [...this.#workloads.values()].sort((a, b) => b.proxies - a.proxies || (a.workload < b.workload ? -1 : 1));
  }

  get list(): readonly ResourceOutcome[] {
    return [...this.#proxies]
      .sort(([a, m], [b, n]) => n - m || (a.type === b.type ? order(a.name, b.name) : order(a.type, b.type)))
      .map(([change, proxies]) => outcomeOf(change, proxies));
  }

  #add(sessions: readonly Session[], changes: readonly ChangedResource[]): void {
    if (changes.length === 0) return;
    const bytes = changes.reduce((sum, { after = 0 }) => sum + after, 0);
    this.bytes += bytes * sessions.length;
    for (const change of changes) this.#proxies.set(change, (this.#proxies.get(change) ?? 0) + sessions.length);
    for (const session of sessions) {
      const workload = this.#workloadOf(session);
      if (!this.#touched.has(session)) workload.proxies++;
      this.#touched.add(session);
      workload.bytes += bytes;
    }
  }

  #workloadOf({ node }: Session): Workload {
    const { namespace } = node;
    const workload = workloadName(node);
    const key = `${namespace}/${workload}`;
    const known = this.#workloads.get(key) ?? { namespace, workload, proxies: 0, bytes: 0 };
    this.#workloads.set(key, known);
    return known;
  }
}

/** Whether proxies are sent the parts of it that they use. */
function isOnDemand({ before, after }: TouchedPart): boolean {
  const view = after ?? before;
  return view?.part === 'outbound' && view.capabilities.onDemand !== undefined;
}

function order(a: string, b: string): number {
  return a < b ? -1 : 1;
}

/** Labels that name a workload, as telemetry reads them; without them the name of the Pod. */
const NAMES = ['service.istio.io/canonical-name', 'app.kubernetes.io/name', 'app'] as const;

function workloadName({ labels, workload, namespace }: Session['node']): string {
  const label = NAMES.find((name) => Object.hasOwn(labels, name));
  if (label !== undefined) return labels[label] ?? '';
  return workload.endsWith(`.${namespace}`) ? workload.slice(0, -namespace.length - 1) : workload;
}

function outcomeOf(
  { type, name, before, after, fields, moreFields }: ChangedResource,
  proxies: number,
): ResourceOutcome {
  const effect = before === undefined ? 'added' : after === undefined ? 'removed' : 'changed';
  const sizes = { bytesBefore: before ?? 0, bytesAfter: after ?? 0 };
  const hidden = fields === undefined ? 1 : moreFields;
  return {
    type,
    name,
    effect,
    proxies,
    ...sizes,
    fields: fields ?? [],
    ...(hidden !== undefined && { moreFields: hidden }),
  };
}
