/**
 * Host names of mesh configuration: exact (`reviews.default.svc.cluster.local`), wildcard (`*.example.com`), or all
 * (`*`). They are compared in lower case; wildcards occur only at the front, so comparing suffixes is enough.
 */

export function isWildcardHost(host: string): boolean {
  return host.startsWith('*');
}

/**
 * Whether `pattern` covers every name that `host` covers: `*.example.com` matches `a.example.com` and
 * `*.b.example.com`, not `example.com`; an exact pattern matches itself alone.
 */
export function hostMatches(pattern: string, host: string): boolean {
  if (pattern === '*') return true;
  if (!isWildcardHost(pattern)) return pattern === host;
  const suffix = pattern.slice(1);
  const name = isWildcardHost(host) ? host.slice(1) : host;
  return name.endsWith(suffix) && (isWildcardHost(host) || name.length > suffix.length);
}

/** The canonical form of a host name: lower case, without a trailing dot. */
export function canonicalHost(written: string): string {
  const lower = written.toLowerCase();
  return lower.endsWith('.') ? lower.slice(0, -1) : lower;
}

/** Whether a name exists that matches both patterns. */
export function hostsOverlap(a: string, b: string): boolean {
  return hostMatches(a, b) || hostMatches(b, a);
}

/**
 * The patterns that could match a host, most specific first: the host itself, then `*.b.c`, `*.c`, `*`. Looking each up
 * is cheaper than trying all patterns.
 */
export function matchingPatterns(host: string): string[] {
  const patterns = [host];
  let rest = host;
  for (let dot = rest.indexOf('.'); dot >= 0; dot = rest.indexOf('.')) {
    rest = rest.slice(dot + 1);
    const pattern = `*.${rest}`;
    if (pattern !== host) patterns.push(pattern);
  }
  if (host !== '*') patterns.push('*');
  return patterns;
}

/**
 * A host as written in a resource of `namespace` → full name. Only names without a dot are short (`reviews`); wildcards
 * and IPv6 addresses stay.
 */
export function fullHostname(host: string, namespace: string, domain: string): string {
  const lower = canonicalHost(host);
  if (lower === '' || lower.includes('.') || lower.includes(':') || isWildcardHost(lower)) return lower;
  return serviceHostname(lower, namespace, domain);
}

export function serviceHostname(name: string, namespace: string, domain: string): string {
  return `${name}.${namespace}.svc.${domain}`;
}
