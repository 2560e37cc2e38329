/** Cross-origin policy of a route, as configuration of the CORS filter for that route. */
import { envoy, type google, packAny } from '../../../protobuf/index.ts';
import type { CorsPolicy } from '../../../resources/index.ts';
import { stringMatcher } from '../string-match.ts';

const { CorsPolicy: CorsPolicyMessage } = envoy.extensions.filters.http.cors.v3;
const { HUNDRED } = envoy.type.v3.FractionalPercent.DenominatorType;

export function corsConfig(policy: CorsPolicy): google.protobuf.Any.Input {
  const { allowOrigins, allowMethods, allowHeaders, exposeHeaders, maxAge, allowCredentials } = policy;
  return packAny(CorsPolicyMessage, {
    allowOriginStringMatch: (allowOrigins ?? []).map(stringMatcher),
    filterEnabled: { defaultValue: { numerator: 100, denominator: HUNDRED } },
    ...(allowMethods === undefined ? {} : { allowMethods: allowMethods.join(',') }),
    ...(allowHeaders === undefined ? {} : { allowHeaders: allowHeaders.join(',') }),
    ...(exposeHeaders === undefined ? {} : { exposeHeaders: exposeHeaders.join(',') }),
    // A number of seconds, as in Access-Control-Max-Age.
    ...(maxAge === undefined ? {} : { maxAge: String(Math.trunc(maxAge / 1000)) }),
    ...(allowCredentials === undefined ? {} : { allowCredentials: { value: allowCredentials } }),
    ...unmatchedPreflights(policy.unmatchedPreflights),
  });
}

function unmatchedPreflights(
  mode: CorsPolicy['unmatchedPreflights'],
): Pick<envoy.extensions.filters.http.cors.v3.CorsPolicy.Input, 'forwardNotMatchingPreflights'> {
  if (mode !== 'FORWARD' && mode !== 'IGNORE') return {};
  return { forwardNotMatchingPreflights: { value: mode === 'FORWARD' } };
}
