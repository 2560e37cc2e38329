/**
 * Follows one ConfigMap of an API server: each of its keys that is read is one configuration. The last good content
 * stays in force when the ConfigMap is deleted, invalid, or no longer readable.
 */
import type { Clock } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { CONFIG_MAPS, type Connection, type Following, followCollection, isLost } from '../../kubernetes/index.ts';
import type { ConfigRefusal, ParsedText } from '../config-text.ts';
import { HealthLog } from '../health.ts';
import { FailureReport } from './failures.ts';

export interface ConfigMapOptions {
  readonly connection: Connection;
  readonly namespace: string;
  readonly name: string;
  readonly clock: Clock;
  readonly log: Log;
}

export interface ConfigMapKeyOptions<T> {
  readonly key: string;
  /** What the key configures, for messages: `mesh configuration`. */
  readonly what: string;
  /** Parses the value; `origin` names the ConfigMap and the key. */
  readonly read: (text: string, origin: string) => ParsedText<T>;
  /** In force while the ConfigMap does not exist or does not have the key. */
  readonly defaultValue: T;
  /** Called for every value that differs from the one before, except the first. `eventTime`: monotonic ms. */
  readonly onValue: (value: T, eventTime: number) => void;
}

export interface ConfigMapValue<T> {
  /**
   * The first value. Pending while the API server cannot be reached or forbids reading, and while the content is
   * invalid: the default may allow what the content forbids.
   */
  readonly first: Promise<T>;
  /** The newest valid value of the ConfigMap; undefined if there has been none, even while the default is in force. */
  value(): T | undefined;
}

export interface FollowedConfigMap {
  /** Called before `start`. */
  follow<T>(options: ConfigMapKeyOptions<T>): ConfigMapValue<T>;
  start(): void;
  close(): Promise<void>;
}

/** The values by key; undefined where the ConfigMap does not exist. */
type Data = Readonly<Record<string, unknown>> | undefined;

export function followConfigMap(options: ConfigMapOptions): FollowedConfigMap {
  const { connection, namespace, name, clock, log } = options;
  const title = `ConfigMap ${namespace}/${name}`;
  const values: FollowedKey<unknown>[] = [];
  let listed = false;
  const reachable = new HealthLog(log, clock.now);
  const unobserve = connection.observe({
    // Later the source of the cluster reports the same.
    lost: (reason) => {
      if (listed) return;
      const text = `the API server ${connection.server} cannot be reached: ${reason}`;
      reachable.bad(text, 'waiting until it can be reached');
    },
    reached: () => reachable.good(`the API server ${connection.server} can be reached`),
  });
  const failures = new FailureReport(log, clock, connection.server);
  const take = (data: Data): void => {
    listed = true;
    failures.recovered(title);
    for (const value of values) value.take(data, clock.now());
  };
  let following: Following | undefined;
  const start = (): void => {
    following = followCollection<Data>(
      { connection, type: CONFIG_MAPS, namespace, name },
      {
        convert: ({ data }) => (typeof data === 'object' && data !== null ? (data as Data) : {}),
        onList: ([data]) => take(data),
        onChanges: (changes) => {
          const last = changes.at(-1);
          if (last !== undefined) take(last.type === 'set' ? last.item : undefined);
        },
        onFailure: (error, verb) => {
          if (isLost(error)) return;
          const consequence = listed
            ? 'what was read before stays in force'
            : 'the program does not become ready without it: the default configuration may allow what it forbids';
          failures.failed(title, `cannot ${verb}: ${error.oneLine()}; ${consequence}`);
        },
        onRecovered: () => failures.recovered(title),
      },
    );
  };
  return {
    follow(key) {
      const value = new FollowedKey(title, key, log);
      // Each value only calls handlers of its own type.
      values.push(value as FollowedKey<unknown>);
      return value;
    },
    start,
    async close() {
      unobserve();
      failures.close();
      await following?.close();
    },
  };
}

class FollowedKey<T> implements ConfigMapValue<T> {
  readonly first: Promise<T>;
  readonly #title: string;
  readonly #options: ConfigMapKeyOptions<T>;
  readonly #log: Log;
  readonly #settled = Promise.withResolvers<T>();
  #isSettled = false;
  /** The text that was read last. */
  #text: string | undefined;
  #value: T | undefined;

  constructor(title: string, options: ConfigMapKeyOptions<T>, log: Log) {
    this.#title = title;
    this.#options = options;
    this.#log = log;
    this.first = this.#settled.promise;
  }

  value(): T | undefined {
    return this.#value;
  }

  take(data: Data, eventTime: number): void {
    const { key, what } = this.#options;
    const text = data?.[key];
    if (typeof text !== 'string') {
      this.#absent(data === undefined ? this.#title : this.#name);
      return;
    }
    if (text === this.#text) return;
    this.#text = text;
    const parsed = this.#options.read(text, this.#name);
    if ('refusal' in parsed) {
      this.#refuse(parsed.refusal);
      return;
    }
    if (parsed.warning !== undefined) this.#log.warn(`${this.#name}: ${what}: ${parsed.warning}`);
    this.#valid(parsed.value, eventTime);
  }

  #refuse({ field, message, line }: ConfigRefusal): void {
    const location = { file: this.#name, field, ...(line === undefined ? {} : { line }) };
    const error = new CtlError('failed_precondition', `${this.#options.what}: ${message}`, location);
    const kept = this.#value === undefined ? 'the default' : 'the last good one';
    const consequence = this.#isSettled
      ? `${kept} stays in force`
      : 'the program does not become ready until it is corrected';
    this.#log.error(`${error.oneLine()}; ${consequence}`);
  }

  #valid(value: T, eventTime: number): void {
    const { what, defaultValue, onValue } = this.#options;
    const before = this.#value ?? defaultValue;
    if (this.#value === undefined) this.#log.info(`${what} is read from ${this.#name}`);
    this.#value = value;
    if (!this.#isSettled) this.#settle(value);
    else if (JSON.stringify(value) !== JSON.stringify(before)) onValue(value, eventTime);
  }

  /** @param missing the ConfigMap or its key */
  #absent(missing: string): void {
    const { what, defaultValue } = this.#options;
    if (this.#value !== undefined) {
      if (this.#text !== undefined) {
        this.#log.warn(`${what}: ${missing} was deleted; the last good one stays in force until it exists again`);
      }
    } else if (!this.#isSettled) {
      this.#log.info(`${what}: ${missing} does not exist; the default is in force until it does`);
      this.#settle(defaultValue);
    }
    this.#text = undefined;
  }

  #settle(value: T): void {
    this.#isSettled = true;
    this.#settled.resolve(value);
  }

  get #name(): string {
    return `${this.#title}, key ${this.#options.key}`;
  }
}
