/**
 * Events of the cluster about refused documents (CTL_ENABLE_CRD_VALIDATION): where no webhook refuses a document when
 * it is applied, its author finds the reason with `kubectl describe`. One replica writes them for all.
 */
import { createHash } from 'node:crypto';
import { createFailureLog, type FailureLog } from '../../core/log.ts';
import type { Outcome } from '../../core/scheduling/work-queue.ts';
import {
  ApiError,
  Controller,
  isRefusal,
  type KubernetesClient,
  reportFailure,
  v1Type,
  type WrittenObject,
} from '../../kubernetes/index.ts';
import { getScope } from '../../logging/index.ts';
import { apiVersionsOf, MESH_KINDS } from '../../resources/index.ts';
import type { LeaderTask } from '../clusters/leadership.ts';
import type { RefusedDocument, RefusedDocuments } from '../pipeline/refused-documents.ts';
import { type ControllerInputs, type LeaderController, runWhileLeading } from './leader-controller.ts';

/**
 * Limit of Events, per second and in a burst: a user who applies thousands of wrong documents must not occupy the API
 * server.
 */
const WRITES = { rate: 5, burst: 50 };
const CONCURRENCY = 2;
/** The API server refuses longer messages. */
const MAX_MESSAGE = 1024;
/** Maximum length of the object's name at the beginning of the Event's name, which has at most 253 characters. */
const MAX_NAME = 220;
/** Namespace of Events about objects without one. */
const DEFAULT_NAMESPACE = 'default';

const EVENTS = v1Type('', 'Event', 'events');
const COMPONENT = 'ctl-discovery';

/** Takes part in the election; undefined if there is nothing to report. */
export function runDocumentEvents(
  { settings, cluster }: Pick<ControllerInputs, 'settings' | 'cluster'>,
  documents: RefusedDocuments,
): LeaderTask | undefined {
  if (!settings.crdValidation || settings.configDir !== '') return undefined;
  const { client, leadership } = cluster;
  // Revisions may have different schemas.
  const task = runWhileLeading(leadership, 'document-events', () => new DocumentEvents(client, documents));
  documents.onChanged((id) => task.changed(new Set([id])));
  return task;
}

class DocumentEvents implements LeaderController {
  readonly #client: KubernetesClient;
  readonly #documents: RefusedDocuments;
  readonly #controller: Controller;
  readonly #failures: FailureLog;
  /** Names of the Events that were written, by the identifier of the problem. */
  readonly #written = new Map<string, string>();

  constructor(client: KubernetesClient, documents: RefusedDocuments) {
    this.#client = client;
    this.#documents = documents;
    this.#controller = new Controller({
      connection: client.connection,
      reconcile: (id) => this.#reconcile(id),
      concurrency: CONCURRENCY,
      budget: WRITES,
      onFailure: (_id, error) => reportFailure(this.#failures, error),
      // The namespace of `Kind/namespace/name`.
      laneOf: (id) => id.split('/', 2)[1] ?? '',
    });
    const what = 'Events about refused documents';
    this.#failures = createFailureLog(getScope('status'), `${what} are not written`, `${what} can be written again`);
  }

  start(): void {
    this.changed(this.#documents.ids());
  }

  changed(ids: readonly string[]): void {
    this.#controller.addAll(ids);
  }

  close(): Promise<void> {
    return this.#controller.close();
  }

  async #reconcile(id: string): Promise<Outcome> {
    if (this.#unwritten(id) === undefined) return 'done';
    await this.#controller.mayWrite();
    // The document may have changed meanwhile.
    const event = this.#unwritten(id);
    if (event === undefined) return 'done';
    try {
      await this.#write(event);
    } catch (error) {
      // The Event is not sent again.
      if (!isRefusal(error) || this.#controller.signal.aborted) throw error;
      reportFailure(this.#failures, error);
      return 'done';
    }
    this.#written.set(id, event.metadata.name);
    this.#failures.succeeded();
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

  async #write(event: WrittenEvent): Promise<void> {
    const { namespace } = event.metadata;
    try {
      await this.#client.create(EVENTS, event, { namespace, signal: this.#controller.signal });
    } catch (error) {
      // Another replica has written the Event, or the namespace was deleted.
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
