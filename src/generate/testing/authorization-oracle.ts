/**
 * The meaning of AuthorizationPolicy, implemented a second time without Envoy: it builds whole strings and compares
 * them. It is independent of the generator, so that both must have the same error to agree on something wrong.
 */
import { BlockList, isIPv6 } from 'node:net';
import { isObject } from '../../core/objects.ts';
import type { AuthorizationPolicySpec, AuthorizationRule } from '../../resources/schema/security.ts';
import type { Json, Request } from './rbac.ts';

export interface OraclePolicy {
  readonly namespace: string;
  readonly spec: AuthorizationPolicySpec;
}

interface Asked {
  readonly request: Request;
  readonly tcp: boolean;
  readonly trustDomains: readonly string[];
  readonly policyNamespace: string;
}

/** A test of a request; `loosely`: true in doubt. */
type Question = (asked: Asked, values: readonly string[], loosely: boolean) => boolean;

const LETS_IN = 'ALLOW';

/** Whether a request reaches the application. */
export function isAllowed(
  policies: readonly OraclePolicy[],
  request: Request,
  { tcp, trustDomains }: Pick<Asked, 'tcp' | 'trustDomains'>,
): boolean {
  const matched = (action: string) =>
    policies.some(
      ({ namespace, spec }) =>
        (spec.action ?? LETS_IN) === action &&
        (spec.rules ?? []).some((rule) =>
          ruleMatches(rule, { request, tcp, trustDomains, policyNamespace: namespace }, action !== LETS_IN),
        ),
    );
  // No authorizer is known here, so that requests for which one would be called are refused.
  if (matched('CUSTOM') || matched('DENY')) return false;
  return matched(LETS_IN) || !policies.some(({ spec }) => (spec.action ?? LETS_IN) === LETS_IN);
}

function ruleMatches({ from, to, when }: AuthorizationRule, asked: Asked, loosely: boolean): boolean {
  let needsHttp = false;
  const holds = (name: string, values: readonly string[] = [], notValues: readonly string[] = []): boolean => {
    const question = questionOf(name);
    if (values.length + notValues.length === 0) return true;
    if (asked.tcp && isHttpOnly(name)) {
      needsHttp = true;
      return true;
    }
    if (values.length > 0 && !question(asked, values, loosely)) return false;
    return notValues.length === 0 || !question(asked, notValues, !loosely);
  };
  // All of it is evaluated, because a rule that needs HTTP anywhere allows nobody on connections.
  const alternatives = (items: readonly Readonly<Record<string, readonly string[] | undefined>>[], names: string[]) =>
    items.map((item) =>
      names.map((name) => holds(name, item[name], item[`not${name[0]?.toUpperCase()}${name.slice(1)}`])),
    );
  const sources =
    from === undefined
      ? [[]]
      : alternatives(
          from.map(({ source }) => source),
          SOURCE,
        );
  const operations =
    to === undefined
      ? [[]]
      : alternatives(
          to.map(({ operation }) => operation),
          OPERATION,
        );
  const conditions = (when ?? []).map(({ key, values, notValues }) => holds(key, values, notValues));
  if (needsHttp && !loosely) return false;
  const oneOf = (all: boolean[][]) => all.some((fields) => fields.every(Boolean));
  return oneOf(sources) && oneOf(operations) && conditions.every(Boolean);
}

const SOURCE = ['principals', 'requestPrincipals', 'namespaces', 'serviceAccounts', 'ipBlocks', 'remoteIpBlocks'];
const OPERATION = ['hosts', 'ports', 'methods', 'paths'];

function isHttpOnly(name: string): boolean {
  return ['requestPrincipals', 'hosts', 'methods', 'paths'].includes(name) || name.startsWith('request.');
}

function questionOf(name: string): Question {
  switch (name) {
    case 'principals':
    case 'source.principal':
      return isPrincipal;
    case 'namespaces':
    case 'source.namespace':
      return (asked, values) => identities(asked).some(({ namespace }) => anyOf(values, namespace));
    case 'serviceAccounts':
    case 'source.serviceAccount':
      return (asked, values) =>
        identities(asked).some(({ namespace, account }) =>
          values.some(
            (value) =>
              (value.includes('/') ? value : `${asked.policyNamespace}/${value}`) === `${namespace}/${account}`,
          ),
        );
    case 'ipBlocks':
    case 'source.ip':
      return ({ request }, values) => isWithin(values, request.from ?? '');
    case 'remoteIpBlocks':
    case 'remote.ip':
      return ({ request }, values) => isWithin(values, request.client ?? request.from ?? '');
    case 'destination.ip':
      return ({ request }, values) => isWithin(values, request.to ?? '');
    case 'ports':
    case 'destination.port':
      return ({ request }, values) => values.includes(String(request.port));
    case 'connection.sni':
      return ({ request: { sni = '' } }, values) =>
        sni !== '' && values.some((value) => covers(value.toLowerCase(), sni.toLowerCase()));
    case 'methods':
      return ({ request: { method = '' } }, values, loosely) =>
        values.some((value) => (loosely ? covers(value.toLowerCase(), method.toLowerCase()) : covers(value, method)));
    case 'paths':
      return ({ request }, values, loosely) => {
        const path = request.path?.split('?')[0] ?? '';
        return values.some((value) => (loosely ? coversLoosely(value, path) : coversStrictly(value, path)));
      };
    case 'hosts':
      return ({ request }, values, loosely) => values.some((value) => isHost(value, request.host ?? '', loosely));
    case 'requestPrincipals':
    case 'request.auth.principal':
      return ({ request: { token } }, values) =>
        token !== undefined && anyOf(values, `${String(token.iss)}/${String(token.sub ?? '')}`);
    case 'request.auth.audiences':
      return claim(['aud']);
    case 'request.auth.presenter':
      return claim(['azp']);
    default: {
      const header = /^request\.headers\[(.*)\]$/.exec(name)?.[1];
      if (header !== undefined) return (asked, values, loosely) => hasHeader(asked, header, values, loosely);
      return claim(name.slice('request.auth.claims['.length, -1).split(']['));
    }
  }
}

/** Whether a pattern covers a path in which parameters can hide nothing from it. */
function coversStrictly(pattern: string, path: string): boolean {
  if (pattern !== '*' && pattern.endsWith('*') && path.includes('/..;')) return false;
  if (pattern !== '*' && pattern.startsWith('*') && path.includes(';')) return false;
  return covers(pattern, path);
}

/** Whether a pattern covers a path with some parameters removed, and empty segments without their slash. */
function coversLoosely(pattern: string, path: string): boolean {
  const semicolon = path.indexOf(';');
  if (semicolon < 0) return covers(pattern, path);
  // A step up may lead anywhere.
  if (path.includes('/..;')) return true;
  const slash = path.indexOf('/', semicolon);
  const rest = slash < 0 ? '' : path.slice(slash);
  const before = path.slice(0, semicolon);
  const merged = before.endsWith('/') && rest !== '' ? before + rest.slice(1) : before + rest;
  return covers(pattern, path) || coversLoosely(pattern, merged);
}

/** Whether one of the patterns covers all of the text. */
function anyOf(patterns: readonly string[], text: string): boolean {
  return patterns.some((pattern) => covers(pattern, text));
}

function covers(pattern: string, text: string): boolean {
  if (pattern === '*') return true;
  if (pattern.startsWith('*')) return text.endsWith(pattern.slice(1));
  return pattern.endsWith('*') ? text.startsWith(pattern.slice(0, -1)) : text === pattern;
}

const SPIFFE = 'spiffe://';

function isPrincipal({ request: { peer = [] }, trustDomains }: Asked, values: readonly string[]): boolean {
  const own = ['cluster.local', ...trustDomains];
  return peer.some((uri) => {
    if (!uri.startsWith(SPIFFE)) return false;
    const name = uri.slice(SPIFFE.length);
    const slash = name.indexOf('/');
    // A peer of one of the mesh's trust domains has a name in each of them.
    const ours = trustDomains.includes(name.slice(0, slash));
    return values.some((value) => {
      const domain = value.slice(0, Math.max(0, value.indexOf('/')));
      const inOwn = domain !== '' && domain !== '*' && own.some((each) => covers(domain, each));
      if (!inOwn) return covers(value, name);
      if (domain.startsWith('*') && covers(value, name)) return true;
      const rest = value.slice(domain.length);
      return ours && covers(`x${rest}`, `x${name.slice(slash)}`);
    });
  });
}

function identities({ request: { peer = [] } }: Asked): { readonly namespace: string; readonly account: string }[] {
  return peer.flatMap((uri) => {
    const [scheme, empty, domain, ns, namespace, sa, account, ...more] = uri.split('/');
    const fits = scheme === 'spiffe:' && empty === '' && domain && ns === 'ns' && namespace && sa === 'sa' && account;
    return fits && more.length === 0 ? [{ namespace, account }] : [];
  });
}

function isWithin(blocks: readonly string[], address: string): boolean {
  return blocks.some((block) => {
    const [base = '', bits] = block.split('/');
    const family = isIPv6(base) ? 'ipv6' : 'ipv4';
    if (isIPv6(base) !== isIPv6(address)) return false;
    const list = new BlockList();
    list.addSubnet(base, Number(bits ?? (family === 'ipv6' ? 128 : 32)), family);
    return list.check(address, family);
  });
}

/** Every way to extract a name from a host; without port only where the pattern has none. */
function isHost(pattern: string, host: string, loosely: boolean): boolean {
  if (pattern === '*') return true;
  // An escape may be any letter.
  if (loosely && host.includes('%')) return true;
  const low = pattern.toLowerCase();
  const written = host.toLowerCase();
  const starts = [written];
  if (loosely) for (const { index } of written.matchAll(/[@,]/g)) starts.push(written.slice(index + 1));
  if (low.endsWith('*')) return starts.some((text) => text.startsWith(low.slice(0, -1)));
  const port = /:\d+$/.exec(low)?.[0];
  const name = port === undefined ? low : low.slice(0, -port.length);
  return starts.some((text) =>
    endings(text, port, loosely).some((cut) => {
      const dots = loosely ? /\.*$/ : /\.?$/;
      const least = cut.replace(dots, '').length;
      return Array.from({ length: cut.length - least + 1 }, (_, more) => least + more).some((end) =>
        covers(name, cut.slice(0, end)),
      );
    }),
  );
}

function endings(text: string, port: string | undefined, loosely: boolean): string[] {
  const ends = loosely ? [...text.matchAll(/,/g)].map(({ index }) => text.slice(0, index)) : [];
  const cuts = [text, ...ends];
  if (port !== undefined) return cuts.filter((cut) => cut.endsWith(port)).map((cut) => cut.slice(0, -port.length));
  for (const { index } of text.matchAll(/:/g)) {
    if (loosely || /^:\d*$/.test(text.slice(index))) cuts.push(text.slice(0, index));
  }
  return cuts;
}

function hasHeader({ request }: Asked, name: string, values: readonly string[], loosely: boolean): boolean {
  const all = (request.headers ?? []).filter(([each]) => each === name.toLowerCase()).map(([, value]) => value);
  if (values.includes('*')) return all.length > 0;
  if (loosely)
    return all.some((value) =>
      [value, ...value.split(',').map((part) => part.trim())].some((part) => anyOf(values, part)),
    );
  // Either all of them are prefixes, or all are suffixes.
  const [ends, others] = [true, false].map((end) => values.filter((value) => value.startsWith('*') === end));
  const among = (some: readonly string[] = []) => all.length > 0 && all.every((value) => anyOf(some, value));
  return among(ends) || among(others);
}

function claim(path: readonly string[]): Question {
  return ({ request: { token } }, values) => {
    let at: Json | undefined = token;
    for (const step of path) {
      const within: Json | undefined = at;
      at = isObject(within) ? (within as Record<string, Json>)[step] : undefined;
    }
    const found: readonly Json[] = Array.isArray(at) ? (at as readonly Json[]) : at === undefined ? [] : [at];
    return found.some((item) => {
      if (typeof item === 'string') return anyOf(values, item);
      return (typeof item === 'number' || typeof item === 'boolean') && values.includes('*');
    });
  };
}
