/** REVISION as a part of the names of Kubernetes objects. */
import { isDnsLabel } from '../../core/dns-names.ts';
import { CtlError } from '../../core/errors.ts';

/** Names of objects are a prefix and the revision, and DNS labels have at most 63 characters. */
const MAX_REVISION = 58;

/** The name of a revision: `default` where none is set. */
export function revisionName(revision: string): string {
  return revision === '' ? 'default' : revision;
}

/**
 * The end of the names of objects that each revision has for itself: empty, or a hyphen and the revision. The revision
 * `default` is the same as none.
 * @throws CtlError when REVISION cannot be a part of a name
 */
export function revisionSuffix(revision: string): string {
  if (revision === '' || revision === 'default') return '';
  if (revision.length <= MAX_REVISION && isDnsLabel(revision)) return `-${revision}`;
  const message = 'expected lower-case letters, digits and hyphens, as in names of Kubernetes objects';
  throw new CtlError('invalid_argument', message, { field: 'REVISION' });
}
