/**
 * Envoy returns HTTP 403 if a token is for another audience, and 401 for all other errors of a token. Here, as in
 * Istio, every token that fails validation results in 401; 403 means that the identity is known and not allowed.
 */
import type { envoy } from '../../../protobuf/index.ts';
import { hasExtension, LUA_FILTER } from '../../filters/index.ts';
import type { GuardedView } from '../types.ts';
import { FAILURE, JWT_FILTER } from './metadata.ts';
import type { TokenRule } from './rules.ts';

type LocalReplies = envoy.extensions.filters.network.http_connection_manager.v3.LocalReplyConfig.Input;

/**
 * Any failure: 403 never has another cause, and after a token has been accepted no failure is recorded (see
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
 * Local reply of the connection manager; undefined if no rule requires an audience, or if failures of accepted tokens
 * would remain recorded.
 */
export function audienceReplies(view: GuardedView, rules: readonly TokenRule[]): LocalReplies | undefined {
  return hasExtension(view, LUA_FILTER) && rules.some(checksAudiences) ? REPLIES : undefined;
}
