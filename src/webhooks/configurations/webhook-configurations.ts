/**
 * Keeps the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration of this control plane up to date; one
 * replica does so for all. Each is watched by its name.
 *
 *   watch ─┐
 *   bundle ┴▶ CA bundle of own webhooks ▶ self-check of validation ▶ failurePolicy: Fail
 *
 * Validation is installed with `failurePolicy: Ignore`, so that nobody is locked out before the control plane answers.
 * It is never set back to Ignore: a control plane that is unavailable for a moment must not let invalid documents pass.
 */
import { oneLineOf } from '../../core/errors.ts';
import { createFailureLog, type FailureLog, type Log } from '../../core/log.ts';
import type { Outcome } from '../../core/scheduling/work-queue.ts';
import {
  ApiError,
  Controller,
  Informer,
  isLost,
  type KubernetesClient,
  type ResourceType,
} from '../../kubernetes/index.ts';
import { type Configuration, changesOf, type Desired, guarded, readConfiguration } from './configuration.ts';
import { checkValidation } from './self-check.ts';

/** Limit of the writes of both objects: per second, and in a burst. */
const WRITES = { rate: 1, burst: 20 };
/** A new or changed webhook is in use by the API server after about a second: earlier failures are not reported. */
const SILENT_CHECKS = 4;

const typeOf = (kind: string, plural: string): ResourceType => ({
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural,
  kind,
  namespaced: false,
});
const TYPES = {
  injection: typeOf('MutatingWebhookConfiguration', 'mutatingwebhookconfigurations'),
  validation: typeOf('ValidatingWebhookConfiguration', 'validatingwebhookconfigurations'),
};
type Purpose = keyof typeof TYPES;
const PURPOSES = ['injection', 'validation'] as const satisfies readonly Purpose[];
/** The key of the check in the work queue, in addition to the purposes. */
const CHECK = 'check';

/** Receives what happens to the validating configuration, for the metrics `cfg_validation_config_*`. */
export interface ConfigurationObserver {
  loaded(): void;
  loadFailed(): void;
  updated(): void;
  updateFailed(): void;
  /** Called when it was deleted while it was watched. */
  deleted(): void;
}

export interface WebhookConfigurationsOptions {
  readonly client: KubernetesClient;
  /** The names of the two objects. */
  readonly names: Readonly<Record<Purpose, string>>;
  /** The host names by which webhooks reach this control plane, such as `meshd.mesh-system.svc`. */
  readonly hosts: readonly string[];
  /** The control plane's namespace, in which the self-check is made. */
  readonly namespace: string;
  /** Empty: the default revision. */
  readonly revision: string;
  /** The certificates by which the API server verifies this control plane, PEM; undefined: those of its system. */
  readonly caBundle: () => string | undefined;
  readonly observer: ConfigurationObserver;
  readonly log: Log;
}

/** One of the two objects. */
interface Followed {
  readonly title: string;
  readonly informer: Informer<Configuration>;
  readonly writes: FailureLog;
  /** Undefined: it does not exist, or has not been read. */
  state: Configuration | undefined;
}

export class WebhookConfigurations {
  readonly #options: WebhookConfigurationsOptions;
  readonly #hosts: ReadonlySet<string>;
  readonly #followed: Readonly<Record<Purpose, Followed>>;
  readonly #controller: Controller;
  readonly #checks: FailureLog;
  /** The bundle with which the self-check succeeded; undefined if it has not succeeded. */
  #proved: { readonly bundle: string | undefined } | undefined;
  #failedChecks = 0;

  constructor(options: WebhookConfigurationsOptions) {
    this.#options = options;
    const { client, log } = options;
    this.#hosts = new Set(options.hosts);
    this.#controller = new Controller({
      connection: client.connection,
      reconcile: (key) => this.#reconcile(key),
      concurrency: 2,
      budget: WRITES,
      onFailure: (key, error) => this.#writeFailed(purposeOf(key), error),
      groupOf: (key) => key,
    });
    this.#followed = { injection: this.#follow('injection'), validation: this.#follow('validation') };
    this.#checks = createFailureLog(
      log,
      'cannot confirm that the API server reaches the validation webhook',
      'the API server reaches the validation webhook',
    );
  }

  start(): void {
    for (const purpose of PURPOSES) this.#followed[purpose].informer.start();
  }

  /** The CA bundle may be another. */
  bundleChanged(): void {
    this.#controller.addAll(PURPOSES);
  }

  /** Nothing is written after it has resolved. */
  async close(): Promise<void> {
    const informers = PURPOSES.map((purpose) => this.#followed[purpose].informer.close());
    await Promise.all([this.#controller.close(), ...informers]);
  }

  #follow(purpose: Purpose): Followed {
    const { client, names, log, observer } = this.#options;
    const type = TYPES[purpose];
    const name = names[purpose];
    const title = `${type.kind} ${name}`;
    const isValidation = purpose === 'validation';
    const informer = new Informer<Configuration>({
      connection: client.connection,
      type,
      name,
      convert: (object) => readConfiguration(object, this.#hosts),
      onChange: (_changes, isList) => this.#read(purpose, informer.get('', name), isList),
      onFailure: () => {
        if (isValidation) observer.loadFailed();
      },
      failures: createFailureLog(
        log,
        `${title} cannot be read and is not kept up to date`,
        `${title} can be read again`,
      ),
    });
    const writes = createFailureLog(log, `${title} cannot be updated`, `${title} can be updated again`);
    return { title, informer, writes, state: undefined };
  }

  /** Called when the object was replaced or deleted. */
  #read(purpose: Purpose, state: Configuration | undefined, isList: boolean): void {
    const { log, observer } = this.#options;
    const followed = this.#followed[purpose];
    const { title, state: before } = followed;
    followed.state = state;
    if (state === undefined) {
      if (purpose === 'validation' && before !== undefined) observer.deleted();
      const effect = purpose === 'injection' ? 'Pods get no proxies' : 'mesh resources are not validated by webhook';
      if (before !== undefined) log.warn(`${title} was deleted: ${effect}`);
      else if (isList) log.info(`${title} does not exist: ${effect}`);
      return;
    }
    if (purpose === 'validation') observer.loaded();
    if (state.webhooks.length === 0 && (before === undefined || before.webhooks.length > 0))
      log.warn(`${title} has no webhook that calls ${this.#options.hosts.join(' or ')}: it is not changed`);
    this.#controller.add(purpose);
  }

  /** Keys are the two objects, and the check of validation: its delays must not hold up a new bundle. */
  async #reconcile(key: string): Promise<Outcome> {
    if (key === CHECK) return await this.#proveAndClose();
    const purpose = purposeOf(key);
    const caBundle = base64(this.#options.caBundle());
    const written = await this.#write(purpose, { caBundle, failurePolicy: undefined });
    if (written !== 'current') return written;
    if (purpose === 'validation') this.#controller.add(CHECK);
    return 'done';
  }

  /** Checks that validation answers with this bundle, unless that is known, and then makes it mandatory. */
  async #proveAndClose(): Promise<Outcome> {
    const { state } = this.#followed.validation;
    if (state === undefined || state.webhooks.length === 0) return 'done';
    const bundle = this.#options.caBundle();
    // The watch reports the bundle when it is written, which adds this key again.
    if (changesOf(state, { caBundle: base64(bundle), failurePolicy: undefined }).length > 0) return 'done';
    const desired: Desired = { caBundle: undefined, failurePolicy: state.managesFailurePolicy ? 'Fail' : undefined };
    const isProved = this.#proved !== undefined && this.#proved.bundle === bundle;
    // A webhook that was set to Ignore by hand is checked again: there may be a reason.
    if (isProved && changesOf(state, desired).length === 0) return 'done';
    const failed = await this.#check(state);
    if (failed !== undefined) return failed;
    this.#proved = { bundle };
    // The watch has added this key again.
    if (this.#followed.validation.state !== state) return 'done';
    const written = await this.#write('validation', desired);
    return written === 'current' ? 'done' : written;
  }

  /** Undefined: validation answers. */
  async #check({ webhooks }: Configuration): Promise<Outcome | undefined> {
    const { client, namespace, revision } = this.#options;
    const names = webhooks.map(({ name }) => name);
    const open = webhooks.some(({ failurePolicy }) => failurePolicy === 'Ignore');
    try {
      const result = await checkValidation({ client, namespace, revision, signal: this.#controller.signal }, names);
      if (result.kind === 'answers') {
        this.#failedChecks = 0;
        this.#checks.succeeded();
        return undefined;
      }
      const effect = open ? 'failurePolicy stays Ignore' : 'no edits of mesh resources are accepted';
      if (++this.#failedChecks > SILENT_CHECKS) this.#checks.failed(`${effect}: ${result.reason}`);
    } catch (error) {
      if (!isLost(error) && !this.#controller.signal.aborted) this.#checks.failed(oneLineOf(error));
    }
    return 'failed';
  }

  /** Returns `current` if there is nothing to write. Otherwise, the watch reports the object after the write. */
  async #write(purpose: Purpose, desired: Desired): Promise<Outcome | 'current'> {
    const { client, names, log, observer } = this.#options;
    const { state, title, writes } = this.#followed[purpose];
    if (state === undefined) return 'done';
    const changes = changesOf(state, desired);
    if (changes.length === 0) return 'current';
    // A rotation does not wait because somebody else wrote before it.
    const wait = this.#controller.repair(purpose, this.#options.caBundle() ?? '');
    if (wait > 0) return wait;
    await this.#controller.mayWrite();
    const type = 'application/json-patch+json';
    const { signal } = this.#controller;
    await client.patch(TYPES[purpose], names[purpose], guarded(state, changes), { type, signal });
    writes.succeeded();
    if (purpose === 'validation') observer.updated();
    log.info(`${title}: ${describe(changes.map(({ path }) => path))}`);
    return 'done';
  }

  #writeFailed(purpose: Purpose, error: unknown): void {
    // It has changed or was deleted meanwhile; the watch reports it.
    if (error instanceof ApiError && (error.status === 409 || error.status === 404)) return;
    if (purpose === 'validation') this.#options.observer.updateFailed();
    this.#followed[purpose].writes.failed(oneLineOf(error));
  }
}

/** The object that a key of the queue is about. */
function purposeOf(key: string): Purpose {
  return key === 'injection' ? 'injection' : 'validation';
}

/** The changes of a patch of these paths, for the log. */
function describe(paths: readonly string[]): string {
  const bundles = paths.filter((path) => path.endsWith('/caBundle')).length;
  const policies = paths.length - bundles;
  const of = (count: number): string => `${count} webhook${count === 1 ? '' : 's'}`;
  return [
    ...(bundles === 0 ? [] : [`updated the CA bundle of ${of(bundles)}`]),
    ...(policies === 0 ? [] : [`set failurePolicy of ${of(policies)} to Fail, because validation works`]),
  ].join(', ');
}

function base64(bundle: string | undefined): string | undefined {
  return bundle === undefined ? undefined : Buffer.from(bundle).toString('base64');
}
