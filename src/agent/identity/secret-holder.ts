/** The present secrets and who wants to know of new ones: what all sources have in common. */
import { oneLineOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { WorkloadSecrets } from '../types.ts';

export interface SecretHolder {
  current(): WorkloadSecrets | undefined;
  onChange(listener: (secrets: WorkloadSecrets) => void): () => void;
  /** Tells everybody, unless nothing is new. A listener that throws does not keep the others from being told. */
  set(secrets: WorkloadSecrets): void;
}

export function createSecretHolder(log: Log): SecretHolder {
  const listeners = new Set<(secrets: WorkloadSecrets) => void>();
  let current: WorkloadSecrets | undefined;
  return {
    current: () => current,
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
          log.error(`new secrets were not taken over: ${oneLineOf(error)}`);
        }
      }
    },
  };
}

function same(a: WorkloadSecrets, b: WorkloadSecrets): boolean {
  return a.roots === b.roots && a.certificate.key === b.certificate.key && a.certificate.chain === b.certificate.chain;
}
