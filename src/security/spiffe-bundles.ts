/**
 * Fetches the roots of foreign trust domains from their bundle endpoints (SPIFFE_BUNDLE_ENDPOINTS), over https that the
 * system trusts. Sources: https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE_Trust_Domain_and_Bundle.md
 * section 4, https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE_Federation.md section 5.
 */
import { z } from 'zod';
import { CtlError } from '../core/errors.ts';
import { isTrustDomain } from '../core/identity.ts';
import { type Loaded, Refresh } from '../core/scheduling/refresh.ts';
import type { WallClock } from '../core/wall-clock.ts';
import { type Certificate, readCertificate } from './certificate.ts';
import { type Fetch, fetchJson, trustedUrl } from './fetch-json.ts';
import type { TrustBundles } from './trust.ts';

export interface BundleEndpoint {
  readonly trustDomain: string;
  readonly url: URL;
}

/** The default of the federation standard (section 5.2.2) for a bundle without a refresh hint, and limits for hints. */
const DEFAULT_REFRESH_MS = 5 * 60_000;
const MIN_REFRESH_MS = 10_000;
const MAX_REFRESH_MS = 24 * 3_600_000;

function badTuple(tuple: string, reason: string): CtlError {
  const shown = JSON.stringify(tuple.slice(0, 200));
  const message = `${shown}: ${reason}; expected <trust_domain>|<endpoint_url>, several joined by ||`;
  return new CtlError('invalid_argument', message, { field: 'SPIFFE_BUNDLE_ENDPOINTS' });
}

/** Reads SPIFFE_BUNDLE_ENDPOINTS. Throws CtlError invalid_argument that names the invalid tuple. */
export function parseBundleEndpoints(text: string): BundleEndpoint[] {
  if (text.trim() === '') return [];
  return text.split('||').map((tuple) => {
    const at = tuple.indexOf('|');
    const trustDomain = at < 0 ? '' : tuple.slice(0, at).trim();
    if (!isTrustDomain(trustDomain)) throw badTuple(tuple, 'the trust domain is missing or not valid');
    try {
      return { trustDomain, url: trustedUrl(tuple.slice(at + 1).trim()) };
    } catch (error) {
      throw badTuple(tuple, error instanceof CtlError ? error.message : String(error));
    }
  });
}

const bundleSchema = z.object({
  keys: z.array(z.object({ use: z.string().optional(), x5c: z.array(z.string()).optional() })),
  spiffe_refresh_hint: z.number().positive().optional(),
});

/** The X.509 roots of a bundle document, and when to fetch it again. Throws CtlError unavailable. */
export function parseBundle(document: unknown): Loaded<Certificate[]> {
  const parsed = bundleSchema.safeParse(document);
  if (!parsed.success) throw new CtlError('unavailable', 'is not a SPIFFE bundle');
  const { keys, spiffe_refresh_hint: hint } = parsed.data;
  const roots = keys
    .filter(({ use }) => use === 'x509-svid')
    .map(({ x5c = [] }) => {
      const [der, another] = x5c;
      if (der === undefined || another !== undefined)
        throw new CtlError('unavailable', 'has a key without its certificate');
      return rootOf(der);
    });
  if (roots.length === 0) throw new CtlError('unavailable', 'has no key for x509-svid');
  const refreshMs = hint === undefined ? DEFAULT_REFRESH_MS : hint * 1000;
  return { value: roots, refreshMs: Math.min(Math.max(refreshMs, MIN_REFRESH_MS), MAX_REFRESH_MS) };
}

function rootOf(base64: string): Certificate {
  try {
    const root = readCertificate(Buffer.from(base64, 'base64'));
    if (root.ca) return root;
  } catch (error) {
    throw new CtlError('unavailable', 'has a certificate that cannot be read', {}, error);
  }
  throw new CtlError('unavailable', 'has a certificate that is not a CA certificate');
}

export interface BundleOptions {
  readonly endpoints: readonly BundleEndpoint[];
  readonly trust: TrustBundles;
  readonly fetch: Fetch;
  readonly clock: WallClock;
  readonly random: () => number;
  readonly onProblem: (error: CtlError) => void;
}

/** Follows the bundles; `started` resolves after the first attempt for each. */
export function followBundles(options: BundleOptions): { readonly started: Promise<unknown>; close(): void } {
  const { trust, fetch, clock, random, onProblem } = options;
  const refreshes = options.endpoints.map(
    ({ trustDomain, url }) =>
      new Refresh<Certificate[]>({
        load: async (signal) => {
          const document = await fetchJson(url, fetch, signal);
          try {
            return parseBundle(document);
          } catch (error) {
            const reason = error instanceof CtlError ? error.message : String(error);
            throw new CtlError('unavailable', `${url.href}: ${reason}`, {}, error);
          }
        },
        onValue: (roots) => trust.set(trustDomain, url.href, roots),
        onProblem: ({ message }) =>
          onProblem(new CtlError('unavailable', `trust bundle of ${trustDomain}: ${message}`)),
        clock,
        random,
      }),
  );
  return {
    started: Promise.all(refreshes.map((refresh) => refresh.start())),
    close: () => {
      for (const refresh of refreshes) void refresh.close();
    },
  };
}
