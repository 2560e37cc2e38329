/**
 * Identity tokens of a cloud's metadata server, which is reachable only from the machine itself
 * (https://cloud.google.com/compute/docs/instances/verifying-instance-identity). The token is kept and renewed before
 * it expires. A server that fails is called again when the token is needed next: the authority's client retries with
 * backoff.
 */
import { CtlError } from '../../core/errors.ts';
import { unverifiedClaims, unverifiedExpiry } from '../../core/jwt-claims.ts';
import type { Log } from '../../core/log.ts';
import { createFailureLog } from '../../core/log.ts';
import type { HttpAnswer } from '../../core/network/http-call.ts';
import type { TokenSource } from '../types.ts';
import { callService } from './call-service.ts';
import type { RequestCounters } from './counters.ts';
import { renewsAt } from './lifetime.ts';
import type { MetadataServer } from './plan.ts';

const PATH = '/computeMetadata/v1/instance/service-accounts/default/identity';
/** Servers and proxies that are not metadata servers do not send this header back. */
const FLAVOR = 'Google';
const TIMEOUT_MS = 5_000;

export interface MetadataTokenOptions {
  readonly server: MetadataServer;
  readonly counters: RequestCounters;
  /** Epoch ms. */
  readonly now: () => number;
  readonly log: Log;
  /** Aborts calls in progress. */
  readonly signal: AbortSignal;
}

interface CachedToken {
  readonly token: string;
  readonly expiresAt: number;
  readonly renewsAt: number;
}

export function metadataTokenSource(options: MetadataTokenOptions): TokenSource {
  const { server, counters, now, signal, log } = options;
  const url = new URL(PATH, server.url);
  url.searchParams.set('audience', server.audience);
  url.searchParams.set('format', 'full');
  const state = createFailureLog(log, 'the identity token is not renewed', 'the identity token can be renewed again');
  let known: CachedToken | undefined;
  let renewal: Promise<CachedToken> | undefined;
  let failed = false;
  const renew = async (): Promise<CachedToken> => {
    const headers = { 'metadata-flavor': FLAVOR };
    try {
      const fetched = await counters.count(failed, async () => {
        const answer = await callService({ to: url, headers, timeoutMs: TIMEOUT_MS, signal });
        return identityToken(answer, server, now());
      });
      failed = false;
      known = fetched;
      return fetched;
    } catch (error) {
      failed = true;
      throw error;
    } finally {
      renewal = undefined;
    }
  };
  return {
    advice: 'the metadata server is called again, with backoff',
    async token() {
      if (known !== undefined && now() < known.renewsAt) return known.token;
      renewal ??= renew();
      try {
        const { token } = await renewal;
        state.succeeded();
        return token;
      } catch (error) {
        if (known === undefined || known.expiresAt <= now()) throw error;
        state.failed(error instanceof CtlError ? error.oneLine() : String(error));
        return known.token;
      }
    },
  };
}

/** The token of an answer. Throws CtlError unavailable for one that is not from a metadata server, or not usable. */
function identityToken(
  { status, headers, text }: HttpAnswer,
  { url, audience }: MetadataServer,
  now: number,
): CachedToken {
  const refuse = (what: string): CtlError => new CtlError('unavailable', `the metadata server at ${url.host} ${what}`);
  if (status !== 200) throw refuse(`returned HTTP ${status}`);
  if (headers['metadata-flavor'] !== FLAVOR)
    throw refuse('does not identify itself: the header Metadata-Flavor is missing');
  const token = text.trim();
  const claims = /^[\w.-]+$/.test(token) ? unverifiedClaims(token) : undefined;
  const expiresAt = unverifiedExpiry(token);
  if (claims === undefined || expiresAt === undefined || !Number.isFinite(expiresAt))
    throw refuse('did not return an identity token');
  if (expiresAt <= now) throw refuse(`returned a token that expired at ${new Date(expiresAt).toISOString()}`);
  const audiences = [claims.aud].flat();
  if (!audiences.includes(audience)) throw refuse('returned a token for another audience');
  return { token, expiresAt, renewsAt: renewsAt(now, expiresAt) };
}
