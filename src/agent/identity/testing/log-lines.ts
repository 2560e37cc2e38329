/** A logger that records its lines. */
import type { Log } from '../../../core/log.ts';

export interface LogLines extends Log {
  /** `level message` of everything above debug. */
  readonly lines: readonly string[];
}

export function logLines(): LogLines {
  const lines: string[] = [];
  const at = (level: string) => (message: string) => void lines.push(`${level} ${message}`);
  return { lines, debug: () => undefined, info: at('info'), warn: at('warn'), error: at('error') };
}
