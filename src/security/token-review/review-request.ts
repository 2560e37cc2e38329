/**
 * One question to an API server: whose token is this? Source: TokenReview of `authentication.k8s.io/v1`,
 * https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-review-v1/
 */
import { z } from 'zod';
import { CtlError } from '../../core/errors.ts';
import { type KubernetesClient, v1Type } from '../../kubernetes/index.ts';
import { quoted } from '../service-account.ts';
import type { BoundPod } from '../types.ts';

const TOKEN_REVIEWS = v1Type('authentication.k8s.io', 'TokenReview', 'tokenreviews', { namespaced: false });

/** Keys of `user.extra` for the Pod that a token is bound to. */
const POD_NAME = 'authentication.kubernetes.io/pod-name';
const POD_UID = 'authentication.kubernetes.io/pod-uid';

const reviewSchema = z.object({
  status: z.object({
    authenticated: z.boolean().optional(),
    error: z.string().optional(),
    audiences: z.array(z.string()).nullish(),
    user: z
      .object({ username: z.string().optional(), extra: z.record(z.string(), z.array(z.string())).nullish() })
      .optional(),
  }),
});

/** The user of a token, as the API server says; or why it does not accept the token. */
export type Review =
  | {
      readonly username: string;
      /** The cluster that accepts it; absent: the local one. */
      readonly cluster?: string;
      /** Undefined for a token that is bound to no Pod. */
      readonly pod: BoundPod | undefined;
    }
  | { readonly refusal: string }
  /** No API server accepts it, and at least one that might accept it does not respond. */
  | { readonly undecided: string };

/**
 * Asks for one review.
 * @param audiences one of them must be the token's; undefined: the token must be for the API server itself
 * @throws CtlError when the API server cannot be reached, answers with an error, or allows this program no reviews
 */
export async function requestReview(
  client: Pick<KubernetesClient, 'create'>,
  token: string,
  audiences: readonly string[] | undefined,
  signal: AbortSignal,
): Promise<Review> {
  const spec = { token, ...(audiences === undefined ? {} : { audiences }) };
  const answer = reviewSchema.safeParse(await client.create(TOKEN_REVIEWS, { metadata: {}, spec }, { signal }));
  if (!answer.success) throw new CtlError('unavailable', 'expected a TokenReview with a status');
  const { authenticated = false, error = '', audiences: accepted, user } = answer.data.status;
  if (!authenticated) {
    return { refusal: `the API server does not accept it${error === '' ? '' : ` (${quoted(error)})`}` };
  }
  // A server that does not support audiences ignores the requested ones, and returns none.
  if (audiences !== undefined && !audiences.some((audience) => accepted?.includes(audience) === true)) {
    return { refusal: 'the API server does not confirm its audience' };
  }
  const [name] = user?.extra?.[POD_NAME] ?? [];
  const [uid = ''] = user?.extra?.[POD_UID] ?? [];
  return { username: user?.username ?? '', pod: name === undefined ? undefined : { name, uid } };
}
