/**
 * The peer's identity: the SPIFFE URI of its certificate, `spiffe://<trust domain>/ns/<namespace>/sa/<service
 * account>`.
 *
 * Envoy compares a name with every URI and DNS name of the certificate and with its subject. Every matcher here
 * therefore begins with `spiffe://`, which DNS names and subjects do not. Without mutual TLS there is no identity, and
 * nothing here matches.
 */
import { anyOf, type Condition, leaf, type PrincipalLeaf } from './condition.ts';
import { escapeRegex, type Pattern, parsePattern, regexMatcher, type StringMatcher, stringMatcher } from './text.ts';

const SCHEME = 'spiffe://';
/** In policies, this name stands for the mesh's trust domain, whatever its name is. */
const LOCAL_TRUST_DOMAIN = 'cluster.local';

type Who = Condition<PrincipalLeaf>;

/**
 * `principals`: `<trust domain>/ns/<namespace>/sa/<service account>`. One of the mesh's trust domains means all of
 * them.
 */
export function principal(value: string, trustDomains: readonly string[]): Who {
  return anyOf(withAliases(value, trustDomains).map((each) => named(principalName(parsePattern(each)))));
}

function principalName(pattern: Pattern): StringMatcher {
  switch (pattern.kind) {
    case 'any':
      return { prefix: SCHEME };
    case 'exact':
    case 'prefix':
      return stringMatcher({ kind: pattern.kind, text: `${SCHEME}${pattern.text}` });
    case 'suffix':
      return regexMatcher(`${SCHEME}(?s:.*)${escapeRegex(pattern.text)}`);
  }
}

/**
 * The same principal in each of the mesh's trust domains, if it has one of them, or a suffix pattern that matches one.
 */
function withAliases(value: string, trustDomains: readonly string[]): readonly string[] {
  const slash = value.indexOf('/');
  if (slash <= 0) return [value];
  const domain = value.slice(0, slash);
  const pattern = parsePattern(domain);
  if (pattern.kind === 'any') return [value];
  const covers = (name: string) => (pattern.kind === 'suffix' ? name.endsWith(pattern.text) : name === domain);
  if (!covers(LOCAL_TRUST_DOMAIN) && !trustDomains.some(covers)) return [value];
  const others = trustDomains.filter((name) => !covers(name)).map((name) => `${name}${value.slice(slash)}`);
  // "cluster.local" stands for the trust domain of the mesh, and is not a separate one.
  const stays = pattern.kind === 'suffix' || trustDomains.some(covers);
  return stays ? [value, ...others] : others;
}

/** `namespaces`: the namespace of the identity and no other part of it, in any trust domain. */
export function namespace(value: string): Who {
  return named(regexMatcher(`${SCHEME}[^/]+/ns/${segment(parsePattern(value))}/sa/[^/]+`));
}

/**
 * `trustDomains`: the trust domain of the identity. As for principals, one trust domain of the mesh stands for all of
 * them.
 */
export function trustDomain(value: string, trustDomains: readonly string[]): Who {
  const names = withAliases(`${value}/`, trustDomains).map((each) => each.slice(0, -1));
  return anyOf(names.map((name) => named(regexMatcher(`${SCHEME}${segment(parsePattern(name))}/(?s:.*)`))));
}

/** `serviceAccounts`: `<namespace>/<service account>`, or a service account of the policy's own namespace. */
export function serviceAccount(value: string, ownNamespace: string): Who {
  const slash = value.indexOf('/');
  const [of, account] = slash < 0 ? [ownNamespace, value] : [value.slice(0, slash), value.slice(slash + 1)];
  return named(regexMatcher(`${SCHEME}[^/]+/ns/${escapeRegex(of)}/sa/${escapeRegex(account)}`));
}

function segment(pattern: Pattern): string {
  switch (pattern.kind) {
    case 'any':
      return '[^/]+';
    case 'exact':
      return escapeRegex(pattern.text);
    case 'prefix':
      return `${escapeRegex(pattern.text)}[^/]*`;
    case 'suffix':
      return `[^/]*${escapeRegex(pattern.text)}`;
  }
}

function named(principalName: StringMatcher): Who {
  return leaf({ authenticated: { principalName } });
}
