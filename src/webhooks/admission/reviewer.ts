/**
 * The work of the admission worker: bytes of a review → bytes of its answer. It keeps the injector that is in use, and
 * the one that was checked last.
 *
 *   body ──bounded JSON──▶ AdmissionReview ──▶ injection or validation ──▶ AdmissionReview with the response
 */
import { CtlError, oneLineOf, toCtlError } from '../../core/errors.ts';
import type { AnyResource, DocumentSettings } from '../../resources/index.ts';
import type { AdmissionReply, AdmissionTask, NumberedProxyConfigs, NumberedSettings, Webhook } from '../tasks.ts';
import type {
  AdmissionAnswer,
  AdmissionRequest,
  InjectionSettings,
  Injector,
  JsonPatchOperation,
  ProxyConfigDocuments,
} from '../types.ts';
import { answerInjection } from './injecting.ts';
import { findPrototypeKey, removePrototypeKeys } from './json.ts';
import { MAX_POD_VALUES, MAX_VALUES, type Review, readReview, writeReview } from './review.ts';

/** The code that decides. */
export interface Handlers {
  readonly createInjector: (settings: InjectionSettings) => Injector;
  readonly diff: (from: unknown, to: unknown) => readonly JsonPatchOperation[];
  readonly validate: (request: AdmissionRequest, documents?: DocumentSettings) => AdmissionAnswer;
  /** The document of a dry run. */
  readonly candidate: (request: AdmissionRequest, documents?: DocumentSettings) => AnyResource | undefined;
  /** Kinds by group, as labels of metrics: any caller can send any other name. */
  readonly isKnownKind: (group: string, kind: string) => boolean;
}

type ReviewTask = Extract<AdmissionTask, { kind: 'review' }>;

interface Compiled {
  readonly number: number;
  readonly injector: Injector;
}

/** Namespaces whose ProxyConfigs are kept: their Pods are created in turns, when Deployments of all are restarted. */
export const MAX_PROXY_CONFIGS = 64;

export class Reviewer {
  readonly #handlers: Handlers;
  /** By number; those that were used last are at the end. */
  readonly #proxyConfigs = new Map<number, ProxyConfigDocuments>();
  #compiled: Compiled | undefined;
  #checked: Compiled | undefined;

  constructor(handlers: Handlers) {
    this.#handlers = handlers;
  }

  run(task: AdmissionTask): AdmissionReply {
    if (task.kind === 'load') return { kind: 'loaded' };
    if (task.kind === 'check') return { kind: 'checked', problem: this.#problemOf(task.injection) };
    try {
      return this.#review(task);
    } catch (error) {
      return { kind: 'failed', code: 'internal', message: oneLineOf(error) };
    }
  }

  /**
   * The problem of settings, if any. Usable settings are tried with a review, so that no Pod waits for their
   * compilation.
   */
  #problemOf({ number, settings }: NumberedSettings): string | undefined {
    try {
      this.#checked = { number, injector: this.#handlers.createInjector(settings) };
    } catch (error) {
      return toCtlError(error).oneLine();
    }
    const review = { kind: 'review', webhook: { kind: 'inject', parameters: {} }, body: SAMPLE_REVIEW } as const;
    this.#decide(review, this.#checked.injector);
    return undefined;
  }

  #review(task: ReviewTask): AdmissionReply {
    if (task.webhook.kind === 'validate') return this.#decide(task, UNUSABLE);
    const injector = task.injection === undefined ? UNUSABLE : this.#injector(task.injection);
    return injector === undefined ? { kind: 'settings needed' } : this.#decide(task, injector);
  }

  #decide(
    { webhook, body, proxyConfigs, documents }: Pick<ReviewTask, 'webhook' | 'body' | 'proxyConfigs' | 'documents'>,
    injector: Injector,
  ): AdmissionReply {
    const { diff, validate, candidate: candidateOf, isKnownKind } = this.#handlers;
    const decide = (request: AdmissionRequest, selected: ProxyConfigDocuments | undefined): AdmissionAnswer =>
      webhook.kind === 'validate'
        ? validate(request, documents)
        : answerInjection(request, webhook.parameters, { injector, proxyConfigs: selected, diff });
    let review: Review;
    try {
      review = readReview(body, webhook.kind === 'validate' ? MAX_VALUES : MAX_POD_VALUES);
    } catch (error) {
      if (error instanceof CtlError) return { kind: 'failed', code: 'invalid_argument', message: error.oneLine() };
      throw error;
    }
    const { request } = review;
    const { namespace } = request;
    if (proxyConfigs !== undefined && proxyConfigs.namespace !== namespace)
      return { kind: 'namespace needed', namespace };
    const selected = proxyConfigs && this.#documents(proxyConfigs);
    if (proxyConfigs !== undefined && selected === undefined) return { kind: 'documents needed' };
    const answer = refusedKey(request, webhook) ?? decide(request, selected);
    const { group, kind } = request.kind;
    const known = isKnownKind(group, kind);
    const candidate = answer.outcome === 'valid' ? candidateOf(request, documents) : undefined;
    return {
      kind: 'answered',
      body: writeReview(review, answer),
      outcome: answer.outcome,
      group: known ? group : 'other',
      resource: known ? kind : 'other',
      subject: subjectOf(request),
      reason: answer.reason ?? answer.refusal?.message ?? '',
      ...(candidate !== undefined && { candidate }),
    };
  }

  /** Undefined: this worker does not have them any more. */
  #documents({ number, documents = this.#proxyConfigs.get(number) }: NumberedProxyConfigs) {
    if (documents === undefined) return undefined;
    this.#proxyConfigs.delete(number);
    this.#proxyConfigs.set(number, documents);
    const [oldest] = this.#proxyConfigs.keys();
    if (this.#proxyConfigs.size > MAX_PROXY_CONFIGS && oldest !== undefined) this.#proxyConfigs.delete(oldest);
    return documents;
  }

  /** Undefined: this worker does not have the settings. */
  #injector(settings: NumberedSettings | number): Injector | undefined {
    const number = typeof settings === 'number' ? settings : settings.number;
    if (this.#checked?.number === number) this.#compiled = this.#checked;
    if (this.#compiled?.number === number) return this.#compiled.injector;
    if (typeof settings === 'number') return undefined;
    const injector = this.#handlers.createInjector(settings.settings);
    this.#compiled = { number, injector };
    return injector;
  }
}

/** A review of a Pod as the controller of a Deployment creates it. */
const SAMPLE_REVIEW = Buffer.from(
  JSON.stringify({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: 'sample',
      operation: 'CREATE',
      kind: { group: '', version: 'v1', kind: 'Pod' },
      namespace: 'default',
      object: {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { generateName: 'sample-', labels: { app: 'sample' } },
        spec: { containers: [{ name: 'app', image: 'sample', ports: [{ containerPort: 80 }] }] },
      },
    },
  }),
);

/** Refuses all Pods, even if `failurePolicy: Ignore` would admit them after a failed review. */
const UNUSABLE: Injector = {
  inject() {
    const message = 'injection has no usable settings; the log of the control plane has the reason';
    throw new CtlError('internal', message);
  },
};

/**
 * The refusal of an object with a key `__proto__`, which no kind has. Undefined for all others. An object that was
 * stored before is not refused: the key is dropped from it here, and the object can be replaced and deleted.
 */
function refusedKey(
  { operation, object, oldObject }: AdmissionRequest,
  { kind }: Webhook,
): AdmissionAnswer | undefined {
  removePrototypeKeys(oldObject);
  const path = operation === 'DELETE' ? undefined : findPrototypeKey(object);
  if (path === undefined) return undefined;
  const message = `${path === '' ? 'the object' : path}: unknown key "__proto__"`;
  const outcome = kind === 'inject' ? 'injection-failed' : 'invalid';
  return { allowed: false, refusal: { code: 422, reason: 'Invalid', message }, outcome };
}

/** The reviewed object, for the log. */
function subjectOf({ kind, namespace, name }: AdmissionRequest): string {
  return `${kind.kind} ${[namespace, name].filter((part) => part !== '').join('/')}`.trimEnd();
}
