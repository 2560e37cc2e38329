/** Queries the current servers one after the other until one responds. */
import { CtlError, messageOf } from '../../core/errors.ts';
import type { FailureLog, Log } from '../../core/log.ts';
import { RCODE, rcodeName } from '../wire/constants.ts';
import { readRcode } from '../wire/reply.ts';
import type { Request, UpstreamResponse } from './request.ts';
import type { Upstream, UpstreamSource } from './upstream.ts';

export interface AskContext {
  readonly upstream: UpstreamSource;
  readonly counters: { upstreamQueries: number; upstreamFailures: number };
  readonly failures: FailureLog;
  readonly log: Log;
  /** Monotonic ms. */
  readonly now: () => number;
}

/** Time limit of a query for all servers and attempts, ms; clients do not wait longer. */
const MAX_TOTAL_MS = 15_000;

/** Response codes after which the next server is queried. */
const UNUSABLE: ReadonlySet<number> = new Set([RCODE.FORMERR, RCODE.SERVFAIL, RCODE.NOTIMP, RCODE.REFUSED]);

/**
 * Rejects with CtlError if no server responds; otherwise returns at least the last error response, such as SERVFAIL.
 */
export async function askServers(request: Request, context: AskContext): Promise<UpstreamResponse> {
  const { upstream, counters, failures, log, now } = context;
  const { upstreams, attempts, timeoutMs } = upstream.current();
  const deadline = now() + MAX_TOTAL_MS;
  const refusing = new Set<Upstream>();
  let unusable: UpstreamResponse | undefined;
  let problem = 'no DNS server responded in time';
  for (let attempt = 0; attempt < attempts; attempt++)
    for (const server of upstreams) {
      const left = deadline - now();
      if (refusing.has(server) || left <= 0) continue;
      try {
        const response = await tried(server, request, Math.min(timeoutMs, left), context);
        const rcode = readRcode(response.message);
        if (!UNUSABLE.has(rcode)) {
          failures.succeeded();
          return response;
        }
        // The server would return the same code again.
        refusing.add(server);
        unusable = response;
        log.debug(`the DNS server ${server.name} returned ${rcodeName(rcode)}`);
      } catch (error) {
        problem = messageOf(error);
      }
      counters.upstreamFailures++;
    }
  if (unusable !== undefined) return unusable;
  failures.failed(problem);
  throw new CtlError('unavailable', problem);
}

async function tried(
  server: Upstream,
  request: Request,
  timeoutMs: number,
  { counters }: AskContext,
): Promise<UpstreamResponse> {
  counters.upstreamQueries++;
  const response = await server.exchange(request, timeoutMs);
  const rcode = readRcode(response.message);
  const unknownEdns = rcode === RCODE.FORMERR || rcode === RCODE.NOTIMP;
  if (!unknownEdns || request.edns === undefined) return response;
  // The server does not support EDNS (RFC 6891 section 6.2.2).
  counters.upstreamQueries++;
  return await server.exchange({ ...request, edns: undefined }, timeoutMs);
}
