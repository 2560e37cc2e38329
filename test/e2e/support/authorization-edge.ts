/**
 * Scenarios about gateways: policies, and the outcomes of calls to two hosts, to a TCP port, and to TLS that is passed
 * through.
 */
import { type Document, resource } from './config.ts';

/** Ports of the gateways. */
export const HTTP = 7088;
export const BYTES = 7089;
export const TLS = 7490;
export const HTTPS = 7493;
export const ISSUER = 'issuer@edge.test';
/** The gateway that policies select, and another one in its namespace. */
export type Gateway = 'front' | 'side';

export interface Call {
  /** Default front. */
  readonly at?: Gateway;
  /** Default `a.example`. */
  readonly host?: string;
  /** Default `/`. */
  readonly path?: string;
  readonly method?: string;
  readonly headers?: readonly string[];
  readonly token?: Document | 'bad';
  /** Loopback address from which the call is made. */
  readonly from?: string;
  /** Default: HTTP in plain text. */
  readonly over?: 'bytes' | 'tls' | 'https';
  /** Over HTTPS: the server name that the client's TLS asks for; default the host. */
  readonly sni?: string;
}

export interface Scenario {
  readonly what: string;
  readonly policies: readonly Document[];
  readonly calls: readonly (readonly [Call, string])[];
}

/** A policy of the gateway `front`, or of a whole namespace. */
export function policy(name: string, spec: Document, namespace?: string): Document {
  const selector = namespace === undefined ? { selector: { matchLabels: { app: 'front' } } } : {};
  return resource('AuthorizationPolicy', name, { ...selector, ...spec }, namespace ?? 'edge');
}
export const deny = (...rules: readonly Document[]) => ({ action: 'DENY', rules });
const allow = (...rules: readonly Document[]) => ({ action: 'ALLOW', rules });
export const operation = (fields: Document) => ({ to: [{ operation: fields }] });
export const source = (fields: Document) => ({ from: [{ source: fields }] });
const when = (key: string, ...values: readonly string[]) => ({ when: [{ key, values }] });

export const A = { host: 'a.example' } as const;
const B = { host: 'b.example' } as const;
export const bytes: Call = { over: 'bytes' };
export const tls = (host: string): Call => ({ over: 'tls', host });

export const SCENARIOS: readonly Scenario[] = [
  {
    what: 'without policies',
    policies: [],
    calls: [
      [A, 'a'],
      [B, 'b'],
      // A complete name may end with a dot.
      [{ host: 'a.example.' }, 'a'],
      [{ host: 'B.example.:7088' }, 'b'],
      [bytes, 'bytes'],
      [tls('a.secret'), 'secret'],
      [{ ...A, token: {} }, 'a'],
      [{ ...A, token: 'bad' }, '401'],
    ],
  },
  {
    what: 'a policy of a gateway applies to all services behind it, and to no other gateway',
    policies: [policy('admin', deny(operation({ paths: ['/admin*'] })))],
    calls: [
      [{ ...A, path: '/admin' }, '403'],
      [{ ...B, path: '/admin/x' }, '403'],
      [{ ...B, path: '//admin' }, '403'],
      [A, 'a'],
      [{ ...A, path: '/admin', at: 'side' }, 'a'],
    ],
  },
  {
    what: 'a policy of the namespace applies to both gateways, one of the services’ namespace to none',
    policies: [
      policy('edge', deny(operation({ methods: ['DELETE'] })), 'edge'),
      policy('services', deny({}), 'default'),
    ],
    calls: [
      [{ ...A, method: 'DELETE' }, '403'],
      [{ ...A, method: 'DELETE', at: 'side' }, '403'],
      [A, 'a'],
    ],
  },
  {
    what: 'a policy of the mesh',
    policies: [policy('mesh', deny(operation({ hosts: ['b.example'] })), 'mesh-system')],
    calls: [
      [B, '403'],
      [{ host: 'B.EXAMPLE:7088' }, '403'],
      [{ host: 'b.example.' }, '403'],
      [{ host: 'b.example.:7088' }, '403'],
      [{ host: 'b.example..' }, '403'],
      [{ ...B, at: 'side' }, '403'],
      [A, 'a'],
    ],
  },
  {
    what: 'public hosts, and one that requires a token',
    policies: [
      policy(
        'hosts',
        allow(
          operation({ hosts: ['a.example'] }),
          { ...operation({ hosts: ['b.example'] }), ...source({ requestPrincipals: [`${ISSUER}/*`] }) },
          {
            ...operation({ hosts: ['b.example'], paths: ['/staff'] }),
            ...when('request.auth.claims[groups]', 'staff'),
          },
        ),
      ),
    ],
    calls: [
      [A, 'a'],
      [{ host: 'A.example:7088' }, 'a'],
      [{ host: 'a.example.' }, 'a'],
      [B, '403'],
      [{ ...B, token: {} }, 'b'],
      [{ ...B, token: 'bad' }, '401'],
      [{ host: 'c.example' }, '403'],
      [{ host: 'c.example.' }, '403'],
      [bytes, 'closed'],
      [tls('a.secret'), 'closed'],
    ],
  },
  {
    what: 'DENY without a valid token, for the listed paths only',
    policies: [
      policy(
        'tokens',
        deny({ ...source({ notRequestPrincipals: ['*'] }), ...operation({ paths: ['/private', '/me/*'] }) }),
      ),
    ],
    calls: [
      [{ ...A, path: '/private' }, '403'],
      [{ ...B, path: '/me/x' }, '403'],
      [{ ...A, path: '/private', token: {} }, 'a'],
      [{ ...A, path: '/private', token: 'bad' }, '401'],
      [{ ...A, path: '/public' }, 'a'],
    ],
  },
  {
    what: 'claims, and what a client claims in headers',
    policies: [policy('staff', allow(when('request.auth.claims[groups]', 'staff')))],
    calls: [
      [{ ...A, token: { groups: ['users', 'staff'] } }, 'a'],
      [{ ...A, token: { groups: ['users'] } }, '403'],
      [{ ...A, headers: ['groups: staff'] }, '403'],
      [A, '403'],
    ],
  },
  {
    what: 'plain text has no identity',
    policies: [policy('identity', deny(source({ notPrincipals: ['*'] })))],
    calls: [
      [A, '403'],
      [{ ...A, headers: ['X-Forwarded-Client-Cert: URI=spiffe://cluster.local/ns/x/sa/y'] }, '403'],
      [bytes, 'closed'],
      [{ ...A, at: 'side' }, 'a'],
    ],
  },
  {
    what: 'ports',
    policies: [policy('ports', deny(operation({ ports: [String(BYTES)] })))],
    calls: [
      [A, 'a'],
      [bytes, 'closed'],
      [tls('a.secret'), 'secret'],
    ],
  },
  {
    what: 'TCP: addresses count; conditions about HTTP never allow',
    policies: [
      policy(
        'bytes',
        allow(
          { ...source({ ipBlocks: ['127.0.0.2'] }), ...operation({ ports: [String(BYTES)] }) },
          operation({ methods: ['GET'] }),
        ),
      ),
    ],
    calls: [
      [{ ...bytes, from: '127.0.0.2' }, 'bytes'],
      [{ ...bytes, from: '127.0.0.3' }, 'closed'],
      [A, 'a'],
      [tls('a.secret'), 'closed'],
    ],
  },
  {
    what: 'TCP: a DENY about HTTP applies to the whole port',
    policies: [policy('bytes', deny(operation({ paths: ['/admin'], ports: [String(BYTES)] })))],
    calls: [
      [bytes, 'closed'],
      [{ ...A, path: '/admin' }, 'a'],
      [tls('b.secret'), 'secret'],
    ],
  },
  {
    what: 'TLS that is passed through: server names',
    policies: [policy('names', deny(when('connection.sni', 'b.secret')))],
    calls: [
      [tls('a.secret'), 'secret'],
      [tls('b.secret'), 'closed'],
      [bytes, 'bytes'],
      [A, 'a'],
    ],
  },
  {
    what: 'HTTPS: the same rules, and server names',
    policies: [
      policy(
        'https',
        deny(
          operation({ paths: ['/admin*'] }),
          { ...operation({ ports: [String(HTTPS)] }), ...when('connection.sni', 'b.example') },
          source({ requestPrincipals: ['*/mallory'] }),
        ),
      ),
    ],
    calls: [
      [{ ...A, over: 'https' }, 'a'],
      [{ ...A, over: 'https', path: '/x/..//admin' }, '403'],
      [{ ...A, over: 'https', token: {} }, 'a'],
      [{ ...A, over: 'https', token: { sub: 'mallory' } }, '403'],
      [{ ...A, over: 'https', token: 'bad' }, '401'],
      [{ ...B, over: 'https' }, '403'],
      [{ ...A, over: 'https', sni: 'B.EXAMPLE' }, '403'],
      [B, 'b'],
      [{ ...A, over: 'https', path: '/admin', at: 'side' }, 'a'],
    ],
  },
  {
    what: 'addresses of clients, whatever their headers claim',
    policies: [policy('addresses', deny(source({ notRemoteIpBlocks: ['127.0.0.2', '10.1.0.0/16'] })))],
    calls: [
      [{ ...A, from: '127.0.0.2' }, 'a'],
      [{ ...A, from: '127.0.0.3' }, '403'],
      [{ ...A, from: '127.0.0.3', headers: ['X-Forwarded-For: 10.1.2.3'] }, '403'],
      [
        { ...A, from: '127.0.0.3', headers: ['X-Forwarded-For: 127.0.0.2', 'X-Envoy-External-Address: 127.0.0.2'] },
        '403',
      ],
    ],
  },
];
