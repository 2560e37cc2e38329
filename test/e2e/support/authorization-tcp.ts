/**
 * Cases about TCP connections, each at its own port: there a policy knows the caller's identity and addresses, and
 * nothing about HTTP. A condition that cannot be evaluated never makes ALLOW match, and never prevents DENY.
 */
import { type Caller, mesh, type Rule } from './authorization-cases.ts';

export interface TcpCase {
  readonly what: string;
  readonly action: 'ALLOW' | 'DENY' | 'AUDIT';
  readonly rules: readonly Rule[];
  readonly expected: readonly TcpExpectation[];
}

export interface TcpExpectation {
  readonly from: Caller;
  readonly at?: number;
  readonly sni?: string;
  readonly is: 'allowed' | 'closed';
}

const WEB = mesh('foo', 'web');
const allowed = (...from: readonly Caller[]): TcpExpectation[] => from.map((each) => ({ from: each, is: 'allowed' }));
const closed = (...from: readonly Caller[]): TcpExpectation[] => from.map((each) => ({ from: each, is: 'closed' }));
const source = (fields: object): Rule => ({ from: [{ source: fields }] });
const operation = (fields: object): Rule => ({ to: [{ operation: fields }] });
const when = (key: string, values: readonly string[]): Rule => ({ when: [{ key, values }] });
const EVERYBODY = ['plain', 'sidecar web.foo', WEB] as const;

export const TCP_CASES: readonly TcpCase[] = [
  { what: 'ALLOW the port', action: 'ALLOW', rules: [{}], expected: allowed(...EVERYBODY) },
  {
    what: 'ALLOW a principal',
    action: 'ALLOW',
    rules: [source({ principals: ['cluster.local/ns/foo/sa/web'] })],
    expected: [...allowed('sidecar web.foo', WEB), ...closed('plain', 'sidecar web.foo-bar', mesh('foo', 'web2'))],
  },
  {
    what: 'ALLOW a principal whose name has a dot',
    action: 'ALLOW',
    rules: [source({ principals: ['cluster.local/ns/foo/sa/a.b'] })],
    expected: [...allowed(mesh('foo', 'a.b')), ...closed(mesh('foo', 'axb'))],
  },
  {
    what: 'ALLOW a namespace',
    action: 'ALLOW',
    rules: [source({ namespaces: ['foo'] })],
    expected: [...allowed('sidecar web.foo'), ...closed('plain', 'sidecar web.foo-bar', 'sidecar foo.bar')],
  },
  {
    what: 'ALLOW an address',
    action: 'ALLOW',
    rules: [source({ ipBlocks: ['198.18.0.200/31'] })],
    expected: [
      { from: 'plain', at: 200, is: 'allowed' },
      { from: 'plain', at: 202, is: 'closed' },
    ],
  },
  {
    what: 'ALLOW a server name',
    action: 'ALLOW',
    rules: [when('connection.sni', ['*.example'])],
    expected: [
      { from: WEB, sni: 'shop.example', is: 'allowed' },
      { from: WEB, sni: 'shop.other', is: 'closed' },
      ...closed('plain'),
    ],
  },
  {
    what: 'ALLOW a method: never',
    action: 'ALLOW',
    rules: [operation({ methods: ['GET'] })],
    expected: closed(...EVERYBODY),
  },
  {
    what: 'ALLOW all methods but one: never',
    action: 'ALLOW',
    rules: [operation({ notMethods: ['GET'] })],
    expected: closed(...EVERYBODY),
  },
  {
    what: 'ALLOW end users: never',
    action: 'ALLOW',
    rules: [source({ requestPrincipals: ['*'] }), source({ notRequestPrincipals: ['*'] })],
    expected: closed(...EVERYBODY),
  },
  {
    what: 'ALLOW a header: never',
    action: 'ALLOW',
    rules: [when('request.headers[x]', ['y']), { when: [{ key: 'request.headers[x]', notValues: ['y'] }] }],
    expected: closed(...EVERYBODY),
  },
  {
    what: 'ALLOW a path, or a principal',
    action: 'ALLOW',
    rules: [operation({ paths: ['/x'] }), source({ principals: ['cluster.local/ns/foo/sa/web'] })],
    expected: [...allowed('sidecar web.foo'), ...closed('plain')],
  },
  {
    what: 'DENY a principal',
    action: 'DENY',
    rules: [source({ principals: ['cluster.local/ns/foo/sa/web'] })],
    expected: [...closed('sidecar web.foo', WEB), ...allowed('plain', 'sidecar foo.bar')],
  },
  {
    what: 'DENY callers without an identity',
    action: 'DENY',
    rules: [source({ notPrincipals: ['*'] })],
    expected: [...closed('plain'), ...allowed('sidecar web.foo')],
  },
  {
    what: 'DENY all namespaces but one',
    action: 'DENY',
    rules: [source({ notNamespaces: ['foo'] })],
    expected: [...closed('plain', 'sidecar foo.bar'), ...allowed('sidecar web.foo')],
  },
  {
    what: 'DENY all addresses but some',
    action: 'DENY',
    rules: [source({ notIpBlocks: ['198.18.0.200/31'] })],
    expected: [
      { from: 'plain', at: 201, is: 'allowed' },
      { from: 'plain', at: 202, is: 'closed' },
    ],
  },
  {
    what: 'DENY a method: the port',
    action: 'DENY',
    rules: [operation({ methods: ['GET'] })],
    expected: closed(...EVERYBODY),
  },
  {
    what: 'DENY all paths but one: the port',
    action: 'DENY',
    rules: [operation({ notPaths: ['/healthz'] })],
    expected: closed(...EVERYBODY),
  },
  {
    what: 'DENY a path to a namespace: that namespace',
    action: 'DENY',
    rules: [{ ...source({ namespaces: ['foo'] }), ...operation({ paths: ['/admin*'] }) }],
    expected: [...closed('sidecar web.foo', WEB), ...allowed('plain', 'sidecar foo.bar')],
  },
  {
    what: 'DENY without a token: the port',
    action: 'DENY',
    rules: [source({ notRequestPrincipals: ['*'] })],
    expected: closed(...EVERYBODY),
  },
  {
    what: 'DENY a header or a claim: the port',
    action: 'DENY',
    rules: [when('request.headers[x]', ['y']), when('request.auth.claims[groups]', ['admins'])],
    expected: closed(...EVERYBODY),
  },
  { what: 'AUDIT: denies nothing', action: 'AUDIT', rules: [{}], expected: allowed(...EVERYBODY) },
];

/** The rules, restricted to one port. */
export function atPort(rules: readonly Rule[], port: number): Rule[] {
  return rules.map((rule) => {
    const ports = { ports: [String(port)] };
    const to = rule.to as readonly { readonly operation: object }[] | undefined;
    return {
      ...rule,
      to: (to ?? [{ operation: {} }]).map(({ operation: fields }) => ({ operation: { ...fields, ...ports } })),
    };
  });
}
