/** Logs which kinds of documents are not read: once each, when they first occur, with their number. */
import type { Log } from '../../core/log.ts';
import type { IgnoredDocument, ParsedResource } from '../../resources/index.ts';

export interface IgnoredKinds {
  /** Counts the documents of a file. */
  note(documents: readonly ParsedResource[]): void;
  /** Logs the kinds that occurred for the first time since the last call. */
  tell(): void;
}

/** The maximum number of kinds that are logged: large clusters have about as many. */
const MAX_KINDS = 200;

export function createIgnoredKinds(log: Pick<Log, 'info' | 'warn'>): IgnoredKinds {
  const told = new Set<string>();
  let met = new Map<string, { readonly first: IgnoredDocument; count: number }>();
  let beyond: 'none' | 'met' | 'told' = 'none';

  const line = ({ what, origin, concern }: IgnoredDocument, count: number): string => {
    const location = origin.line === undefined ? origin.file : `${origin.file}:${origin.line}`;
    const documents = count === 1 ? '1 document' : `${count} documents`;
    const where = count === 1 ? location : `the first is ${location}`;
    return `not read: ${documents} of ${what} (${where})${concern === undefined ? '' : `: ${concern}`}`;
  };

  return {
    note(documents) {
      for (const document of documents) {
        if (!('ignored' in document)) continue;
        const { what } = document.ignored;
        if (told.has(what)) continue;
        const known = met.get(what);
        if (known !== undefined) known.count++;
        else if (told.size + met.size < MAX_KINDS) met.set(what, { first: document.ignored, count: 1 });
        else if (beyond === 'none') beyond = 'met';
      }
    },
    tell() {
      for (const [what, { first, count }] of met) {
        log[first.concern === undefined ? 'info' : 'warn'](line(first, count));
        told.add(what);
      }
      met = new Map();
      if (beyond !== 'met') return;
      beyond = 'told';
      log.warn(`not read: documents of more than ${MAX_KINDS} kinds; further kinds are not listed`);
    },
  };
}

/**
 * The number of new ignored documents, compared with the last reading of the file, that were perhaps meant for the
 * mesh.
 */
export function newlyIgnored(before: readonly ParsedResource[], after: readonly ParsedResource[]): number {
  const known = concerningKinds(before);
  let count = 0;
  for (const [what, number] of concerningKinds(after)) count += Math.max(0, number - (known.get(what) ?? 0));
  return count;
}

function concerningKinds(documents: readonly ParsedResource[]): Map<string, number> {
  const numbers = new Map<string, number>();
  for (const document of documents) {
    if (!('ignored' in document) || document.ignored.concern === undefined) continue;
    const { what } = document.ignored;
    numbers.set(what, (numbers.get(what) ?? 0) + 1);
  }
  return numbers;
}
