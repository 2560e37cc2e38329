/**
 * Reads the token that authenticates a workload until it has a certificate. It is read for each request, because its
 * issuer replaces it before it expires. It is not verified here; only its expiry is checked, so that the log names an
 * expired token instead of the authority's refusal.
 */
import { CtlError } from '../../core/errors.ts';
import { unverifiedExpiry } from '../../core/jwt-claims.ts';
import type { TokenSource } from '../types.ts';

/** The token's path in a pod, by JWT_POLICY. */
const TOKEN_FILES: Readonly<Record<string, string>> = {
  'third-party-jwt': './var/run/secrets/tokens/mesh-token',
  'first-party-jwt': './var/run/secrets/orchestrator.io/serviceaccount/token',
};

/** Servers reject longer headers. */
const MAX_TOKEN_BYTES = 32 * 1024;

/** The file of CA_TOKEN_FILE or, without it, of the policy. Throws CtlError for an unknown policy. */
export function tokenFileOf(policy: string, override: string): string {
  if (override !== '') return override;
  const file = Object.hasOwn(TOKEN_FILES, policy) ? TOKEN_FILES[policy] : undefined;
  if (file !== undefined) return file;
  const message = `${JSON.stringify(policy)} is neither third-party-jwt nor first-party-jwt`;
  throw new CtlError('invalid_argument', message, { field: 'JWT_POLICY' });
}

export interface TokenOptions {
  readonly file: string;
  /** False to send it without checking its expiry (SKIP_PARSE_TOKEN). */
  readonly parse: boolean;
  readonly read: (file: string) => Promise<string>;
}

export function fileTokenSource(options: TokenOptions, now: () => number): TokenSource {
  return {
    token: () => currentToken(options, now()),
    advice:
      `write a new token to ${options.file} (ctl-discovery issue-token); no restart is needed. If ` +
      'OUTPUT_CERTS and PROV_CERT name one folder, a restart within the lifetime of the certificate needs no token',
  };
}

/**
 * Reads the current token. Rejects with CtlError not_found when there is no file, and unauthenticated, with a message
 * for operators, when it is not usable.
 */
export async function currentToken({ file, parse, read }: TokenOptions, now: number): Promise<string> {
  const token = (await readToken(file, read)).trim();
  const unfit = (what: string): CtlError => new CtlError('unauthenticated', `the token in ${file} ${what}`);
  if (token === '') throw unfit('is empty');
  if (token.length > MAX_TOKEN_BYTES || !/^[\x21-\x7e]+$/.test(token)) throw unfit('is malformed');
  if (!parse) return token;
  const expiry = unverifiedExpiry(token);
  if (expiry === undefined) throw unfit('is not a JWT (SKIP_PARSE_TOKEN=true sends others)');
  if (expiry <= now) throw unfit(`expired at ${new Date(expiry).toISOString()}`);
  return token;
}

async function readToken(file: string, read: TokenOptions['read']): Promise<string> {
  try {
    return await read(file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') throw new CtlError('not_found', `there is no token in ${file}`, {}, error);
    throw new CtlError('unauthenticated', `the token in ${file} cannot be read (${code ?? String(error)})`, {}, error);
  }
}
