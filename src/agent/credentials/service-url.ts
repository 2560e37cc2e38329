/** URLs of services that credentials are sent to. */
import { CtlError } from '../../core/errors.ts';
import { isLoopbackName } from '../../core/network/loopback.ts';

/**
 * An https URL, or an http URL of this machine: credentials must not be sent in plain text. Throws CtlError
 * invalid_argument that names the variable.
 */
export function serviceUrl(text: string, variable: string): URL {
  const refuse = (what: string): CtlError =>
    new CtlError('invalid_argument', `invalid value ${JSON.stringify(shown(text))} of variable ${variable}: ${what}`);
  const url = URL.parse(text);
  if (url === null) throw refuse('not a URL');
  const plain = url.protocol === 'http:' && isLoopbackName(url.hostname.replace(/^\[(.*)\]$/, '$1'));
  if (url.protocol !== 'https:' && !plain) throw refuse('not an https URL (http is allowed for loopback hosts only)');
  if (url.username !== '' || url.password !== '') throw refuse('must not contain a user name or password');
  if (url.hash !== '') throw refuse('must not contain a fragment');
  return url;
}

/** The string without a part that may be a password. */
function shown(text: string): string {
  return text
    .replace(/\/\/[^/]*@/, '//')
    .replace(/[?#].*$/s, '')
    .slice(0, 200);
}
