/** What the log says of documents: those that are refused, and fields of others that were left out. */
import { systemClock } from '../core/clock.ts';
import { getScope, type Logger, limitLog } from '../logging/index.ts';
import {
  type AnyResource,
  type ResourceKey,
  type ResourceOrigin,
  type ResourceProblem,
  UNKNOWN_FIELD,
} from '../resources/index.ts';
import type { HeldDocument, SourceDocument } from '../store/index.ts';

const later = (ms: number, run: () => void): void => void systemClock.setTimer(ms, run);

export interface ProblemLog {
  /** @param held what is in force in the place of a policy */
  refused(problem: ResourceProblem, held: HeldDocument | undefined): void;
  resolved(problem: ResourceProblem): void;
}

/**
 * One line for each document that cannot be taken, and one when it can again; of thousands at once the first are
 * written and the rest counted, policies apart, so that other documents do not crowd them out.
 */
export function problemLog(log: Pick<Logger, 'info' | 'error'> = getScope('validation'), laterOf = later): ProblemLog {
  const others = limitLog({ write: (message) => log.error(message), later: laterOf });
  const policies = limitLog({ write: (message) => log.error(message), later: laterOf });
  const mended = limitLog({ write: (message) => log.info(message), later: laterOf });
  return {
    refused: ({ id, origin, key, field, message }, held) => {
      const write = held === undefined ? others : policies;
      write(`${origin.source} ${id}`, `${lineOf(origin, key, field, message)}${inForce(held)}`);
    },
    resolved: ({ id, origin }) => {
      const whose = origin.file === undefined ? `${origin.source}: ` : '';
      mended(`${origin.source} ${id}`, `${whose}${id} is no longer refused`);
    },
  };
}

function inForce(held: HeldDocument | undefined): string {
  if (held === undefined) return '';
  if (held.inForce === 'last_good') return '; the last good version stays in force';
  const kinds = new Set(held.problem.substitutes?.map(({ kind }) => STRICTEST[kind]));
  return `; there is no good version of it, until then ${[...kinds].join(', and ')}`;
}

const STRICTEST = {
  AuthorizationPolicy: 'everything is denied for the workloads that it covers',
  PeerAuthentication: 'the workloads that it covers take mutual TLS alone',
  RequestAuthentication: 'no token is taken by the workloads that it covers',
} as const;

/** One line when a key has documents of several sources, of which one is in force; a flood of them is counted. */
export function sharedLog(write = (message: string): void => getScope('validation').warn(message)) {
  const log = limitLog({ write, later });
  return (key: ResourceKey, [inForce, ...others]: readonly SourceDocument[]): void => {
    const rest = others.map(({ source }) => source).join(', ');
    log(key, `${key}: the document of source ${inForce?.source} is in force, not that of ${rest}`);
  };
}

/**
 * One line when the document in force is gone and that of another source takes its place; a flood of them is counted.
 */
export function takeoverLog(write = (message: string): void => getScope('validation').info(message)) {
  const log = limitLog({ write, later });
  return (key: ResourceKey, from: string, { source }: SourceDocument): void =>
    log(key, `${key}: gone from source ${from}; the document of source ${source} is in force now`);
}

/** One line for each field that was left out, of each version of a document; a flood of them is counted. */
export function warningLog(): (key: ResourceKey, resource: AnyResource) => void {
  const log = limitLog({ write: (message) => getScope('validation').warn(message), later });
  return (key, { origin, warnings = [] }) => {
    for (const { field, message, line } of warnings) {
      const place = { ...origin, ...(line === undefined ? {} : { line }) };
      const rest = message === UNKNOWN_FIELD ? '; it is left out, and the rest of the document is in force' : '';
      log(key, `${lineOf(place, key, field, message)}${rest}`);
    }
  };
}

function lineOf(origin: ResourceOrigin, key: ResourceKey | undefined, field: string, message: string): string {
  // What has no file is found by its key, in its source.
  const file = origin.file ?? origin.source;
  const place = origin.line === undefined ? file : `${file}:${origin.line}`;
  return [place, key, field, message].filter((part) => part !== undefined && part !== '').join(': ');
}
