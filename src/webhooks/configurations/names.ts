/** The names of the webhook configurations of a control plane, from INJECTION_WEBHOOK_CONFIG_NAME and its twin. */
import { isDnsSubdomain } from '../../core/dns-names.ts';
import { CtlError } from '../../core/errors.ts';

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
  if (isDnsSubdomain(name)) return name;
  const placeholders = `${NAMESPACE_PLACEHOLDER} and ${REVISION_PLACEHOLDER}`;
  const message = `expected the name of an object (${placeholders} are replaced), got ${JSON.stringify(name)}`;
  throw new CtlError('invalid_argument', message, { field: variable });
}
