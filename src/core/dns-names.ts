/** Names of Kubernetes objects: labels and subdomains as in RFC 1123. */

/** Maximum length of a label (RFC 1035 section 2.3.4). */
export const MAX_DNS_LABEL = 63;
/** Maximum length of a name with its dots (RFC 1035 section 2.3.4, without the bytes of its encoding). */
export const MAX_DNS_NAME = 253;

const LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
/** Labels that are separated by dots; without the limits of length. */
export const DNS_SUBDOMAIN_PATTERN = `${LABEL}(\\.${LABEL})*`;

const DNS_LABEL = new RegExp(`^${LABEL}$`);
const DNS_SUBDOMAIN = new RegExp(`^${DNS_SUBDOMAIN_PATTERN}$`);

/** Lower-case letters, digits and hyphens, at most 63: the names of namespaces and Services. */
export function isDnsLabel(name: string): boolean {
  return name.length <= MAX_DNS_LABEL && DNS_LABEL.test(name);
}

/** Labels that are separated by dots, at most 253 characters: the names of most Kubernetes objects. */
export function isDnsSubdomain(name: string): boolean {
  return name.length <= MAX_DNS_NAME && DNS_SUBDOMAIN.test(name);
}
