/** Log lines about documents: refused ones, ignored fields, and documents of several sources with one key. */
import { systemClock } from '../../core/clock.ts';
import { getScope, type Logger, limitLog } from '../../logging/index.ts';
import {
  type AnyResource,
  type ResourceKey,
  type ResourceOrigin,
  type ResourceProblem,
  UNKNOWN_FIELD,
} from '../../resources/index.ts';
import type { RefusedDocument, SourceDocument } from '../../store/index.ts';

const later = (ms: number, run: () => void): void => void systemClock.setTimer(ms, run);

export interface ProblemLog {
  /** @param held what is in force instead of a refused policy */
  refused(problem: ResourceProblem, held: RefusedDocument | undefined): void;
  resolved(problem: ResourceProblem): void;
}

/**
 * One line for each refused document, and one when it is no longer refused. If thousands are refused at once, the first
 * ones are logged and the others are counted. Policies have their own limit, so that other documents do not displace
 * them.
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

/** What is in force instead of a refused document, as the end of a log line. */
export function inForce(held: RefusedDocument | undefined): string {
  if (held === undefined) return '';
  if (held.inForce === 'last_good') return '; the last good version stays in force';
  const kinds = new Set(held.problem.substitutes?.map(({ kind }) => STRICTEST[kind]));
  return `; no valid version of it is stored, so ${[...kinds].join(', and ')} until it is corrected`;
}

const STRICTEST = {
  AuthorizationPolicy: 'all requests to the workloads that it covers are denied',
  PeerAuthentication: 'the workloads that it covers accept only mutual TLS',
  RequestAuthentication: 'the workloads that it covers accept no token',
  rule: 'it refuses the requests to which it applies, unless it only records',
} as const;

/** One line when several sources have a document of one key: it names the one in force. Rate-limited. */
export function sharedLog(write = (message: string): void => getScope('validation').warn(message)) {
  const log = limitLog({ write, later });
  return (key: ResourceKey, [inForce, ...others]: readonly SourceDocument[]): void => {
    const rest = others.map(({ source }) => source).join(', ');
    log(key, `${key}: the document of source ${inForce?.source} is in force, not that of ${rest}`);
  };
}

/**
 * One line when the document in force is deleted and the document of another source replaces it. Rate-limited.
 */
export function takeoverLog(write = (message: string): void => getScope('validation').info(message)) {
  const log = limitLog({ write, later });
  return (key: ResourceKey, from: string, { source }: SourceDocument): void =>
    log(key, `${key}: deleted from source ${from}; the document of source ${source} is now in force`);
}

/** One line for each warning about a version of a document, such as an ignored field. Rate-limited. */
export function warningLog(): (key: ResourceKey, resource: AnyResource) => void {
  const log = limitLog({ write: (message) => getScope('validation').warn(message), later });
  return (key, { origin, warnings = [] }) => {
    for (const { field, message, line } of warnings) {
      const location = { ...origin, ...(line === undefined ? {} : { line }) };
      const rest = message === UNKNOWN_FIELD ? '; the field is ignored, the rest of the document is in force' : '';
      log(key, `${lineOf(location, key, field, message)}${rest}`);
    }
  };
}

function lineOf(origin: ResourceOrigin, key: ResourceKey | undefined, field: string, message: string): string {
  // A document without a file is named by its source and key.
  const file = origin.file ?? origin.source;
  const location = origin.line === undefined ? file : `${file}:${origin.line}`;
  return [location, key, field, message].filter((part) => part !== undefined && part !== '').join(': ');
}
