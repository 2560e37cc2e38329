/** A finding as pages and commands show it. */
import type { Finding } from './types.ts';

export type ShownFinding = Omit<Finding, 'origin' | 'reveals'> & {
  /** `file:line`; empty for a document that is in no file. */
  readonly origin: string;
};

export function shownFinding({ origin, reveals: _reveals, ...finding }: Finding): ShownFinding {
  const { file = '', line } = origin;
  return { ...finding, origin: file === '' || line === undefined ? file : `${file}:${line}` };
}
