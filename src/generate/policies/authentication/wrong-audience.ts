/**
 * Envoy answers 403 where a token is for another audience, and 401 for all else that can be wrong with one. Here a
 * token that fails validation is 401 (specification "policy-resources", end-user JWT rules); 403 says that who one is
 * has been understood, and is not let in.
 */
import type { envoy } from '../../../protobuf/index.ts';
import { hasExtension, LUA_FILTER } from '../../filters/index.ts';
import type { GuardedView } from '../types.ts';
import { FAILURE, JWT_FILTER } from './metadata.ts';
import type { TokenRule } from './rules.ts';

type LocalReplies = envoy.extensions.filters.network.http_connection_manager.v3.LocalReplyConfig.Input;

/**
 * Any failure: 403 is never the answer to another one, and after a token has passed none is left (see
 * `jwt-expiry-filter.ts`).
 */
const REPLIES: LocalReplies = {
  mappers: [
    {
      filter: {
        metadataFilter: {
          matcher: {
            filter: JWT_FILTER,
            path: [{ key: FAILURE }, { key: 'message' }],
            value: { presentMatch: true },
          },
          matchIfKeyNotFound: { value: false },
        },
      },
      statusCode: { value: 401 },
    },
  ],
};

export function checksAudiences({ rule }: TokenRule): boolean {
  return (rule.audiences ?? []).length > 0;
}

/**
 * How the connection manager answers; undefined where nobody asks for an audience, and where failures of tokens that
 * pass would be left.
 */
export function audienceReplies(view: GuardedView, rules: readonly TokenRule[]): LocalReplies | undefined {
  return hasExtension(view, LUA_FILTER) && rules.some(checksAudiences) ? REPLIES : undefined;
}
