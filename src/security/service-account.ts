/** Names of service accounts in tokens, as Kubernetes writes them: `system:serviceaccount:<namespace>:<account>`. */
import { CtlError } from '../core/errors.ts';
import { type Identity, spiffeUri } from '../core/identity.ts';

const SUBJECT = /^system:serviceaccount:([^:]+):([^:]+)$/;

/** Maximum length of a caller's string that an error message repeats. */
const MAX_QUOTED = 200;

/** A caller's string in a form that is safe in an error message. */
export function quoted(text: string): string {
  return JSON.stringify(text.slice(0, MAX_QUOTED));
}

/** An error that refuses a token. */
export function refused(reason: string, cause?: unknown): CtlError {
  return new CtlError('unauthenticated', reason, {}, cause);
}

/**
 * The identity of a workload that runs as this account.
 * @throws CtlError unauthenticated for every other subject
 */
export function serviceAccountIdentity(subject: string | undefined, trustDomain: string): Identity {
  const [, namespace, serviceAccount] = SUBJECT.exec(subject ?? '') ?? [];
  if (namespace === undefined || serviceAccount === undefined) {
    throw refused(`its subject ${quoted(subject ?? '')} is not that of a service account`);
  }
  const identity = { trustDomain, namespace, serviceAccount };
  try {
    spiffeUri(identity);
  } catch (error) {
    throw refused(`its subject ${quoted(subject ?? '')} cannot be an identity`, error);
  }
  return identity;
}
