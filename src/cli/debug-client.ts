/**
 * The client of debug pages for commands: address, credential, limits, and errors of one clear line. An address is
 * `host:port`, or `https://host:port` where a proxy in front of the service terminates TLS; its certificate is then
 * verified.
 */
import { CtlError, messageOf } from '../core/errors.ts';
import { type HttpAnswer, type HttpCall, httpText } from '../core/network/http-call.ts';
import { dialAddress, type Environment, usageError } from '../settings/index.ts';
import { debugCredential, MAX_DEBUG_PAGE_BYTES } from './debug-credential.ts';
import { unavailable } from './errors.ts';
import { printable } from './output/index.ts';

/** More than any page of a large mesh needs. */
const TIMEOUT_MS = 60_000;

/** Most characters of an error response that are shown. */
const MAX_SHOWN = 500;

/** One discovery service. */
export interface DebugClient {
  /** `host:port`, for messages. */
  readonly server: string;
  /**
   * The JSON of `/debug/<name>`. Rejects with CtlError: `invalid_argument` and
   * `not_found` for what the service did not know, else `unavailable`.
   */
  page(name: string, query?: Readonly<Record<string, string>>): Promise<unknown>;
  /** The same of a page that takes a body. */
  post(name: string, body: string): Promise<unknown>;
}

/** Rejects with CtlError when the file of the credential cannot be used. */
export async function debugClient(address: string, env: Environment): Promise<DebugClient> {
  const base = new URL(address.startsWith('https://') ? address : `http://${dialAddress(address)}`);
  const headers = await debugCredential(env);
  const call = async (url: URL, more: Pick<HttpCall, 'method' | 'body'> = {}): Promise<unknown> => {
    const asked = httpText({ to: url, timeoutMs: TIMEOUT_MS, headers, ...more }, MAX_DEBUG_PAGE_BYTES);
    const answer = await asked.catch((error: unknown) => {
      throw unavailable(
        `cannot call ${url.host}: ${messageOf(error)}; --httpAddr is the address of the discovery service`,
      );
    });
    return contentOf(answer, url);
  };
  return {
    server: base.host,
    page(name, query = {}) {
      const url = new URL(`/debug/${name}`, base);
      for (const [key, value] of Object.entries(query)) url.searchParams.set(key, value);
      return call(url);
    },
    post: (name, body) => call(new URL(`/debug/${name}`, base), { method: 'POST', body }),
  };
}

function contentOf({ status, text }: HttpAnswer, { host, pathname }: URL): unknown {
  if (status === 400) throw usageError(shown(text));
  if (status === 404) throw new CtlError('not_found', `${host} returned HTTP 404: ${shown(text)}`);
  const hint = status === 401 || status === 403 ? '; CTL_DEBUG_TOKEN_FILE names the file with the token to send' : '';
  if (status !== 200) throw unavailable(`${host} returned HTTP ${status}: ${shown(text)}${hint}`);
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw unavailable(`${host} did not return JSON for ${pathname}: is it a discovery service?`, error);
  }
}

/** An answer with these lists, as a type. Throws CtlError `unavailable` for another one, as of another release. */
export function withLists<T>(answer: unknown, { server }: DebugClient, ...lists: readonly (keyof T & string)[]): T {
  const fields: Readonly<Record<string, unknown>> = typeof answer === 'object' && answer !== null ? { ...answer } : {};
  const missing = lists.find((name) => !Array.isArray(fields[name]));
  if (missing === undefined) return answer as T;
  throw unavailable(`${server} returned JSON without the list ${missing}: is it a discovery service of this release?`);
}

/** The response on one line, without characters that control a terminal. */
function shown(text: string): string {
  return printable(text.slice(0, MAX_SHOWN), ' ').replace(/\s+/gu, ' ').trim();
}
