/**
 * Records which listeners this Envoy has refused, and why, from its log: its admin interface forgets a refusal as soon
 * as the control plane sends an update without the rejected listeners.
 */
import type { EnvoyLogLine } from './log-line.ts';

export interface ListenerRefusals {
  /** Takes a line of Envoy's log. */
  see(line: Pick<EnvoyLogLine, 'text'>): void;
  /** Envoy's latest message by listener name. */
  current(): ReadonlyMap<string, string>;
  /** Resets the record, for a new Envoy. */
  clear(): void;
}

/** A control plane may send thousands of invalid listeners; the first ones tell what is wrong. */
const MAX_LISTENERS = 32;
const MAX_REASON_LENGTH = 300;

/**
 * The error that Envoy returns to the control plane and logs (ListenerManagerImpl and LdsApiImpl): a line `<name>:
 * <reason>` for each listener.
 */
const REFUSED = /\.Listener rejected: Error adding\/updating listener\(s\) (.*)$/s;

/** @param first names that are recorded even when there are too many */
export function createListenerRefusals(first: readonly string[]): ListenerRefusals {
  const refused = new Map<string, string>();
  return {
    see({ text }) {
      const lines = REFUSED.exec(text)?.[1]?.split('\n') ?? [];
      for (const line of lines) {
        const [, name, reason = ''] = /^(\S+): (.+)$/.exec(line.trim()) ?? [];
        if (name === undefined) continue;
        if (refused.size < MAX_LISTENERS || refused.has(name) || first.includes(name))
          refused.set(name, reason.slice(0, MAX_REASON_LENGTH));
      }
    },
    current: () => refused,
    clear: () => refused.clear(),
  };
}
