/** CTL_GATEWAY_API_CONTROLLER_NAME, checked. */
import { CtlError } from '../../core/errors.ts';
import type { DiscoverySettings } from '../../settings/index.ts';

/** A domain and a path of one segment. With a hyphen instead of the slash, it is a valid value of a label. */
const NAME = /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?\/[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$/;
const MAX_LENGTH = 63;

/** @throws CtlError when the name cannot be that of a controller, or is too long for a label */
export function gatewayControllerName({ gatewayControllerName: name }: DiscoverySettings): string {
  if (NAME.test(name) && name.length <= MAX_LENGTH) return name;
  const message = `expected <domain>/<name> with at most ${MAX_LENGTH} characters, such as example.com/gateways`;
  throw new CtlError('invalid_argument', message, { field: 'CTL_GATEWAY_API_CONTROLLER_NAME' });
}
