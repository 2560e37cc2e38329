/**
 * Envoy answers 403 where a token is for another audience, and 401 for all else that can be wrong with one. Here a token that fails validation
 * is 401 (specification "policy-resources", end-user JWT rules); 403 says that who one is has been understood, and is not let in.
 */
import type { envoy } from '../../../protobuf/index.ts';
import { FAILURE, JWT_FILTER } from './metadata.ts';
import type { TokenRule } from './rules.ts';

type LocalReplies = envoy.extensions.filters.network.http_connection_manager.v3.LocalReplyConfig.Input;

/** What Envoy says then, in the body and in the metadata. */
const MESSAGE = 'Audiences in Jwt are not allowed';

const REPLIES: LocalReplies = {
  mappers: [
    {
      filter: {
        metadataFilter: {
          matcher: {
            filter: JWT_FILTER,
            path: [{ key: FAILURE }, { key: 'message' }],
            value: { stringMatch: { exact: MESSAGE } },
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

/** How the connection manager answers; undefined where nobody asks for an audience. */
export function audienceReplies(rules: readonly TokenRule[]): LocalReplies | undefined {
  return rules.some(checksAudiences) ? REPLIES : undefined;
}
