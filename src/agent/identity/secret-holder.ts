/** Holds the current secrets and notifies listeners of new ones; used by all sources. */
import { isDeepStrictEqual } from 'node:util';
import { oneLineOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { SecretSource, WorkloadSecrets } from '../types.ts';

export interface SecretHolder {
  current(): WorkloadSecrets | undefined;
  /** Why there are no secrets; undefined when there are secrets. */
  missing(): string | undefined;
  /** Records why there are no new secrets. */
  failed(reason: string): void;
  onChange(listener: (secrets: WorkloadSecrets) => void): () => void;
  /**
   * Sets the secrets, and notifies all listeners if they have changed. A listener that throws does not affect the
   * others.
   */
  set(secrets: WorkloadSecrets): void;
}

export function createSecretHolder(log: Log): SecretHolder {
  const listeners = new Set<(secrets: WorkloadSecrets) => void>();
  let current: WorkloadSecrets | undefined;
  let reason = 'it has not been issued yet';
  return {
    current: () => current,
    missing: () => (current === undefined ? reason : undefined),
    failed(why) {
      reason = why;
    },
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    set(secrets) {
      if (current !== undefined && same(current, secrets)) return;
      current = secrets;
      for (const listener of listeners) {
        try {
          listener(secrets);
        } catch (error) {
          log.error(`new secrets were not applied: ${oneLineOf(error)}`);
        }
      }
    },
  };
}

/** A source whose secrets are in the holder. */
export function secretSource(
  { current, missing, onChange }: SecretHolder,
  running: { start(): unknown; close(): Promise<void> },
): SecretSource {
  return { current, missing, onChange, start: () => void running.start(), close: () => running.close() };
}

function same(a: WorkloadSecrets, b: WorkloadSecrets): boolean {
  return (
    a.roots === b.roots &&
    a.certificate.key === b.certificate.key &&
    a.certificate.chain === b.certificate.chain &&
    isDeepStrictEqual(a.federated, b.federated)
  );
}
