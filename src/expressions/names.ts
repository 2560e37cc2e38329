/** DNS names, e-mail addresses and URIs: which strings are some, and which of them are equal. */

const MAX_NAME = 253;
const MAX_LABEL = 63;
const ASCII_LABEL = /^[a-z0-9_](?:[-a-z0-9_]*[a-z0-9_])?$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: everything that is not ASCII
const NOT_ASCII = /[^\x00-\x7f]/;

/**
 * The name in lower case, internationalised labels as Punycode (RFC 5891), without the dot at the end; undefined for a
 * string that is no DNS name.
 */
export function canonicalDnsName(name: string): string | undefined {
  const text = name.endsWith('.') ? name.slice(0, -1) : name;
  const ascii = NOT_ASCII.test(text) ? punycode(text) : text.toLowerCase();
  if (ascii === undefined || ascii === '' || ascii.length > MAX_NAME) return undefined;
  const labels = ascii.split('.');
  if (!labels.every((label) => label.length <= MAX_LABEL && ASCII_LABEL.test(label))) return undefined;
  const encoded = labels.some((label) => label.startsWith('xn--'));
  return encoded && punycode(ascii) === undefined ? undefined : ascii;
}

/** By the URL parser, which implements IDNA. The last label keeps it from reading the name as an IPv4 address. */
function punycode(name: string): string | undefined {
  if (name.length > 4 * MAX_NAME || /[\s/?#@:%\\[\]^|<>]/.test(name)) return undefined;
  const url = URL.parse(`http://${name}.x/`);
  return url?.hostname.endsWith('.x') ? url.hostname.slice(0, -'.x'.length) : undefined;
}

/** RFC 5322 dot-atom, or a quoted string. */
const LOCAL = /^(?:[\p{L}\p{N}!#$%&'*+/=?^_`{|}~-]+(?:\.[\p{L}\p{N}!#$%&'*+/=?^_`{|}~-]+)*|"(?:[^"\\\r\n]|\\.)*")$/u;

interface Email {
  readonly local: string;
  readonly domain: string;
}

/** An address without a display name; undefined for other strings. */
function emailOf(address: string): Email | undefined {
  if (address.length > 320) return undefined;
  const text = /^<.*>$/.test(address) ? address.slice(1, -1) : address;
  const at = text.lastIndexOf('@');
  const local = text.slice(0, Math.max(0, at));
  if (!LOCAL.test(local)) return undefined;
  const domain = canonicalDnsName(text.slice(at + 1));
  return domain === undefined ? undefined : { local: unquoted(local), domain };
}

/** A quoted local part is the same as one without quotes (RFC 5322, section 3.4.1). */
function unquoted(local: string): string {
  return local.startsWith('"') ? local.slice(1, -1).replace(/\\(.)/g, '$1') : local;
}

export function isEmail(address: string): boolean {
  return emailOf(address) !== undefined;
}

/** The parts of a URI (RFC 3986, appendix B). */
const URI = /^(?:([^:/?#]+):)?(?:\/\/([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?$/s;
const SCHEME = /^[a-zA-Z][-a-zA-Z0-9+.]*$/;
const AUTHORITY = /^(?:[^@]*@)?(?:\[[0-9a-fA-F:.]+(?:%25[^\]]*)?\]|[^\s:[\]<>"\\^`{}|]*)(?::(\d*))?$/;

interface Uri {
  readonly scheme: string;
  readonly authority: string | undefined;
  readonly rest: string;
}

/** A URI or a reference; undefined for other strings. */
function uriOf(text: string): Uri | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are no part of a URI
  if (text === '' || /[\x00-\x1f\x7f]/.test(text) || text.startsWith(':')) return undefined;
  const [, scheme = '', authority, path = '', query, fragment] = URI.exec(text) ?? [];
  if (scheme !== '' && !SCHEME.test(scheme)) return undefined;
  if (authority !== undefined && !AUTHORITY.test(authority)) return undefined;
  if (/%(?![0-9a-fA-F]{2})/.test(`${authority ?? ''}${path}`)) return undefined;
  const rest = `${path}${query === undefined ? '' : `?${query}`}${fragment === undefined ? '' : `#${fragment}`}`;
  return { scheme: scheme.toLowerCase(), authority, rest };
}

export function isUri(text: string): boolean {
  return uriOf(text) !== undefined;
}

/** Equality of two names; undefined if one of them is none. */
export function dnsNamesEqual(one: string, other: string): boolean | undefined {
  return equal(canonicalDnsName(one), canonicalDnsName(other), (a, b) => a === b);
}

/** Local parts are equal exactly, domains as DNS names. */
export function emailsEqual(one: string, other: string): boolean | undefined {
  return equal(emailOf(one), emailOf(other), (a, b) => a.local === b.local && a.domain === b.domain);
}

/** Schemes are equal in any case, hosts of http and https as DNS names, all else exactly. */
export function urisEqual(one: string, other: string): boolean | undefined {
  return equal(uriOf(one), uriOf(other), (a, b) => {
    if (a.scheme !== b.scheme || a.rest !== b.rest) return false;
    return a.scheme === 'http' || a.scheme === 'https'
      ? httpAuthority(a.authority) === httpAuthority(b.authority)
      : a.authority === b.authority;
  });
}

function httpAuthority(authority = ''): string {
  const [, user = '', host = '', port = ''] = /^(.*@)?(.*?)(:\d*)?$/s.exec(authority) ?? [];
  return `${user}${canonicalDnsName(host) ?? host.toLowerCase()}${port === ':' ? '' : port}`;
}

function equal<T>(one: T | undefined, other: T | undefined, same: (a: T, b: T) => boolean): boolean | undefined {
  return one === undefined || other === undefined ? undefined : same(one, other);
}
