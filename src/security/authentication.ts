/** Tries the authenticators in order. A caller may present several credentials; one valid credential is enough. */
import { CtlError } from '../core/errors.ts';
import type { Authentication, Authenticator } from './types.ts';

/**
 * One line with the reasons of all authenticators. Code `unavailable` if one of them could not decide, so that a retry
 * may help.
 */
function refusal(reasons: readonly { readonly name: string; readonly error: CtlError }[]): CtlError {
  if (reasons.length === 0) {
    return new CtlError('unauthenticated', 'a client certificate of the mesh or a bearer token is required');
  }
  const code = reasons.some(({ error }) => error.code === 'unavailable') ? 'unavailable' : 'unauthenticated';
  return new CtlError(code, reasons.map(({ name, error }) => `${name}: ${error.message}`).join('; '));
}

/** @param onFailure is called for each caller that no authenticator accepts */
export function createAuthentication(
  authenticators: readonly Authenticator[],
  onFailure: (peer: string, error: CtlError) => void,
): Authentication {
  return {
    async authenticate(credentials) {
      const reasons: { name: string; error: CtlError }[] = [];
      for (const authenticator of authenticators) {
        try {
          const caller = await authenticator.authenticate(credentials);
          if (caller !== undefined) return caller;
        } catch (error) {
          const known = error instanceof CtlError && (error.code === 'unauthenticated' || error.code === 'unavailable');
          if (!known) throw error;
          reasons.push({ name: authenticator.name, error });
        }
      }
      const error = refusal(reasons);
      onFailure(credentials.peer, error);
      throw error;
    },
  };
}
