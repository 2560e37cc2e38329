/** Redirects: Envoy itself answers with another address. */
import { envoy } from '../../../protobuf/index.ts';
import type { HttpRedirect } from '../../../resources/index.ts';
import type { RedirectAction } from '../messages.ts';

const { MOVED_PERMANENTLY, FOUND, SEE_OTHER, TEMPORARY_REDIRECT, PERMANENT_REDIRECT } =
  envoy.config.route.v3.RedirectAction.RedirectResponseCode;

const RESPONSE_CODES: ReadonlyMap<number, NonNullable<RedirectAction['responseCode']>> = new Map([
  [301, MOVED_PERMANENTLY],
  [302, FOUND],
  [303, SEE_OTHER],
  [307, TEMPORARY_REDIRECT],
  [308, PERMANENT_REDIRECT],
]);

/**
 * The redirect as Envoy's action; undefined for a status code that Envoy does not support. Envoy cannot take the port
 * from the request, but routes are for one port, which is used.
 */
export function redirectAction(redirect: HttpRedirect, port: number): RedirectAction | undefined {
  const code = redirect.redirectCode ?? 0;
  const responseCode = code === 0 ? MOVED_PERMANENTLY : RESPONSE_CODES.get(code);
  if (responseCode === undefined) return undefined;
  const portRedirect = redirect.port ?? (redirect.derivePort === 'FROM_REQUEST_PORT' ? port : undefined);
  return {
    ...(redirect.authority ? { hostRedirect: redirect.authority } : {}),
    ...pathFields(redirect),
    ...(redirect.scheme ? { schemeRedirect: redirect.scheme } : {}),
    ...(portRedirect === undefined ? {} : { portRedirect }),
    responseCode,
  };
}

/** At most one of the three, as Envoy requires. */
function pathFields({ uri, uriPrefix, uriRegexRewrite }: HttpRedirect): RedirectAction {
  if (uriRegexRewrite !== undefined) {
    const { match, rewrite } = uriRegexRewrite;
    return { regexRewrite: { pattern: { regex: match }, substitution: rewrite } };
  }
  if (uriPrefix) return { prefixRewrite: uriPrefix };
  return uri ? { pathRedirect: uri } : {};
}
