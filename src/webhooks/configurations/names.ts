/** The names of the webhook configurations of a control plane, from INJECTION_WEBHOOK_CONFIG_NAME and its twin. */
import { CtlError } from '../../core/errors.ts';

/** DNS subdomain (RFC 1123), as names of cluster-scoped objects are. */
const NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const MAX_NAME = 253;

const REVISION_PLACEHOLDER = '$' + '{revision}';
const NAMESPACE_PLACEHOLDER = '$' + '{namespace}';

export interface ControlPlane {
  readonly namespace: string;
  /** Empty: the default revision. */
  readonly revision: string;
}

/**
 * The name of a configuration: `${namespace}` and `${revision}` are replaced. The default gets `-REVISION` with a
 * revision other than `default`, because each revision has configurations of its own; a name that the operator chose
 * does not.
 * @param variable of the environment, for errors
 * @throws CtlError when the result cannot be the name of an object
 */
export function configurationName(
  variable: string,
  { value, defaultValue }: { readonly value: string; readonly defaultValue: string },
  { namespace, revision }: ControlPlane,
): string {
  const isDefaultRevision = revision === '' || revision === 'default';
  const template = value === defaultValue && !isDefaultRevision ? `${value}-${REVISION_PLACEHOLDER}` : value;
  const name = template
    .replaceAll(NAMESPACE_PLACEHOLDER, () => namespace)
    .replaceAll(REVISION_PLACEHOLDER, () => (isDefaultRevision ? 'default' : revision));
  if (NAME.test(name) && name.length <= MAX_NAME) return name;
  const placeholders = `${NAMESPACE_PLACEHOLDER} and ${REVISION_PLACEHOLDER}`;
  const message = `expected the name of an object (${placeholders} are replaced), got ${JSON.stringify(name)}`;
  throw new CtlError('invalid_argument', message, { field: variable });
}
