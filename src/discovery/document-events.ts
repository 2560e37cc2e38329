/**
 * Events of the cluster about refused documents (CTL_ENABLE_CRD_VALIDATION): where no webhook refuses a document when
 * it is applied, its author finds the reason with `kubectl describe`. One replica writes them for all.
 */
import { createHash } from 'node:crypto';
import { sleep, systemClock } from '../core/clock.ts';
import { TokenBucket } from '../core/fairness/token-bucket.ts';
import { createFailureLog, type FailureLog } from '../core/log.ts';
import { type Outcome, WorkQueue } from '../core/work-queue.ts';
import { isRefusal, reportFailure } from '../gateway-controller/index.ts';
import { ApiError, type KubernetesClient, type ResourceType, type WrittenObject } from '../kubernetes/index.ts';
import { getScope } from '../logging/index.ts';
import { apiVersionsOf, MESH_KINDS } from '../resources/index.ts';
import { type Controller, type ControllerInputs, runWhileLeading } from './leader-controller.ts';
import type { LeaderTask } from './leadership.ts';
import type { RefusedDocument, RefusedDocuments } from './refused-documents.ts';

/** Events a second, and at once: a user who applies thousands of wrong documents must not occupy the API server. */
const WRITES = { rate: 5, burst: 50 };
const CONCURRENCY = 2;
/** The API server refuses longer messages. */
const MAX_MESSAGE = 1024;
/** Of the object, at the beginning of the Event's name, which has at most 253 characters. */
const MAX_NAME = 220;
/** Namespace of Events about objects without one. */
const DEFAULT_NAMESPACE = 'default';

const EVENTS: ResourceType = { group: '', version: 'v1', plural: 'events', kind: 'Event', namespaced: true };
const COMPONENT = 'ctl-discovery';

/** Takes part in the election; undefined where nothing is to be reported. */
export function runDocumentEvents(
  { settings, cluster }: ControllerInputs,
  documents: RefusedDocuments,
): LeaderTask | undefined {
  if (!settings.crdValidation || settings.configDir !== '') return undefined;
  const { client, leadership } = cluster;
  // Revisions may have different schemas.
  const task = runWhileLeading(leadership, 'document-events', () => new DocumentEvents(client, documents));
  documents.onChanged((id) => task.changed(new Set([id])));
  return task;
}

class DocumentEvents implements Controller {
  readonly #client: KubernetesClient;
  readonly #documents: RefusedDocuments;
  readonly #queue: WorkQueue;
  readonly #bucket = new TokenBucket({ ...WRITES, now: systemClock.now });
  readonly #failures: FailureLog;
  /** Names of the Events that were written, by the identifier of the problem. */
  readonly #written = new Map<string, string>();
  readonly #ending = new AbortController();

  constructor(client: KubernetesClient, documents: RefusedDocuments) {
    this.#client = client;
    this.#documents = documents;
    const work = (id: string): Promise<Outcome> => this.#work(id);
    this.#queue = new WorkQueue({ work, concurrency: CONCURRENCY, clock: systemClock, random: Math.random });
    const what = 'Events about refused documents';
    this.#failures = createFailureLog(getScope('status'), `${what} are not written`, `${what} are written again`);
  }

  start(): void {
    this.changed(this.#documents.ids());
  }

  changed(ids: readonly string[]): void {
    for (const id of ids) this.#queue.add(id);
  }

  async close(): Promise<void> {
    this.#ending.abort();
    await this.#queue.close();
  }

  async #work(id: string): Promise<Outcome> {
    const { signal } = this.#ending;
    // The queue would wake thousands of documents for every Event that may be written.
    for (let event = this.#unwritten(id); event !== undefined; event = this.#unwritten(id)) {
      const wait = this.#bucket.take();
      if (wait === 0) return this.#report(id, event);
      await sleep(systemClock, wait, signal);
      if (signal.aborted) break;
    }
    return 'done';
  }

  /** The Event about a document; undefined where it is written already or the document is good. */
  #unwritten(id: string): WrittenEvent | undefined {
    const refused = this.#documents.get(id);
    if (refused === undefined) {
      this.#written.delete(id);
      return undefined;
    }
    const event = eventOf(refused);
    return this.#written.get(id) === event.metadata.name ? undefined : event;
  }

  async #report(id: string, event: WrittenEvent): Promise<Outcome> {
    try {
      await this.#write(event);
    } catch (error) {
      if (this.#ending.signal.aborted) return 'done';
      reportFailure(this.#failures, error);
      return isRefusal(error) ? 'done' : 'failed';
    }
    this.#written.set(id, event.metadata.name);
    this.#failures.succeeded();
    return 'done';
  }

  async #write(event: WrittenEvent): Promise<void> {
    const { namespace } = event.metadata;
    try {
      await this.#client.create(EVENTS, event, { namespace, signal: this.#ending.signal });
    } catch (error) {
      // Another replica has written it; or the namespace has been deleted.
      if (!(error instanceof ApiError && (error.status === 409 || error.status === 404))) throw error;
    }
  }
}

type WrittenEvent = WrittenObject & { readonly metadata: { readonly name: string; readonly namespace: string } };

/** The name follows from the document and the message, so that replicas write one Event. */
function eventOf({ key, problem, inForce }: RefusedDocument): WrittenEvent {
  const [kind = '', namespace = '', name = ''] = key.split('/');
  const { origin, field, message } = problem;
  const text = `${field === '' ? '' : `${field}: `}${message}${inForce}`;
  const shown = text.length <= MAX_MESSAGE ? text : `${text.slice(0, MAX_MESSAGE - 1)}…`;
  const hash = createHash('sha256')
    .update(JSON.stringify([key, origin.uid, shown]))
    .digest('hex')
    .slice(0, 16);
  const time = new Date().toISOString();
  const { uid, resourceVersion } = origin;
  return {
    metadata: { name: `${beginningOf(name)}.${hash}`, namespace: namespace || DEFAULT_NAMESPACE },
    involvedObject: {
      apiVersion: apiVersionOf(kind),
      kind,
      namespace,
      name,
      ...(uid === undefined ? {} : { uid }),
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
    },
    type: 'Warning',
    reason: 'Refused',
    message: shown,
    source: { component: COMPONENT },
    reportingComponent: COMPONENT,
    firstTimestamp: time,
    lastTimestamp: time,
    count: 1,
  };
}

/** The beginning of a name, which is a name as well: it ends with a letter or a digit (RFC 1123, 2.1). */
function beginningOf(name: string): string {
  return name.slice(0, MAX_NAME).replace(/[^a-z0-9]+$/, '');
}

function apiVersionOf(name: string): string {
  const kind = MESH_KINDS.find((each) => each === name);
  return kind === undefined ? '' : (apiVersionsOf(kind)[0] ?? '');
}
