/** The rules of the bench, the requests that Envoys ask about, and the decisions that the rules define. */
import { encode, envoy } from '../../src/protobuf/index.ts';
import { head } from '../world/documents.ts';

const { CheckRequest } = envoy.service.auth.v3;

export const SERVICE = '/envoy.service.auth.v3.Authorization/Check';
export const NAMESPACE = 'shop';
const USERS = 64;
/** One request of so many is for the path that the denier refuses, and one is of a user who is not on the list. */
const DENIED_EACH = 20;
const OK = 0;
const PERMISSION_DENIED = 7;

function document(kind: string, name: string, spec: object): string {
  return `${head('config.mesh.io/v1alpha2', kind, name, NAMESPACE)}  ${JSON.stringify(spec)}\n`;
}

/** A denier, a list checker, and a quota that is never exhausted, each for all requests of the namespace. */
export function documents(): string {
  const users = Array.from({ length: USERS }, (_, index) => `user-${index}`);
  const quotas = [{ name: `requests.instance.${NAMESPACE}`, maxAmount: 1_000_000_000, validDuration: '10s' }];
  return [
    document('handler', 'deny', { compiledAdapter: 'denier', params: { status: { code: PERMISSION_DENIED } } }),
    document('instance', 'any', { compiledTemplate: 'checknothing' }),
    document('rule', 'admin', {
      match: 'request.path.startsWith("/admin") && (request.headers["x-user"] | "") != "root"',
      actions: [{ handler: 'deny', instances: ['any'] }],
    }),
    document('handler', 'users', { compiledAdapter: 'listchecker', params: { overrides: users } }),
    document('instance', 'user', {
      compiledTemplate: 'listentry',
      params: { value: 'request.headers["x-user"] | "nobody"' },
    }),
    document('rule', 'users', {
      match: 'request.method == "GET" || request.method == "POST"',
      actions: [{ handler: 'users', instances: ['user'] }],
    }),
    document('handler', 'quotas', { compiledAdapter: 'memquota', params: { quotas } }),
    document('instance', 'requests', {
      compiledTemplate: 'quota',
      params: { dimensions: { user: 'request.headers["x-user"] | "nobody"', method: 'request.method' } },
    }),
    document('rule', 'quotas', { actions: [{ handler: 'quotas', instances: ['requests'] }] }),
  ].join('---\n');
}

export interface Asked {
  /** A message of gRPC: the request with its length in front. */
  readonly body: Buffer;
  /** The code of the decision. */
  readonly code: number;
}

/** Requests as a sidecar asks about them, with the headers of a browser behind a gateway. */
export function requests(): readonly Asked[] {
  return Array.from({ length: 20 * DENIED_EACH }, (_, index) => {
    const [isAdmin, isStranger] = [index % DENIED_EACH === 0, index % DENIED_EACH === 1];
    const user = isStranger ? 'stranger' : `user-${index % USERS}`;
    const message = encode(CheckRequest, { attributes: attributesOf(isAdmin ? '/admin/x' : `/items/${index}`, user) });
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(message.length, 1);
    return { body: Buffer.concat([prefix, message]), code: isAdmin || isStranger ? PERMISSION_DENIED : OK };
  });
}

function attributesOf(path: string, user: string): envoy.service.auth.v3.AttributeContext.Input {
  const socket = (address: string, portValue: number) => ({ address: { socketAddress: { address, portValue } } });
  const id = `6f9619ff-8b86-d011-b42d-00c04fc964ff-${user}`;
  return {
    source: { ...socket('10.1.2.3', 41_234), principal: 'spiffe://cluster.local/ns/web/sa/front' },
    destination: { ...socket('10.1.2.4', 8_080), principal: `spiffe://cluster.local/ns/${NAMESPACE}/sa/default` },
    request: {
      time: { seconds: 1_790_000_000, nanos: 5 },
      http: {
        id: '7315642830712384123',
        method: 'GET',
        path,
        host: `items.${NAMESPACE}.svc.cluster.local`,
        scheme: 'http',
        protocol: 'HTTP/1.1',
        size: -1,
        headers: {
          ':authority': `items.${NAMESPACE}.svc.cluster.local`,
          ':method': 'GET',
          ':path': path,
          ':scheme': 'http',
          accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
          'accept-encoding': 'gzip, deflate, br',
          'accept-language': 'en-US,en;q=0.5',
          cookie: 'session=0123456789abcdef0123456789abcdef; theme=dark',
          'user-agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
          'x-b3-sampled': '0',
          'x-b3-spanid': '1a2b3c4d5e6f7788',
          'x-b3-traceid': '1a2b3c4d5e6f77881a2b3c4d5e6f7788',
          'x-forwarded-client-cert':
            'By=spiffe://cluster.local/ns/shop/sa/default;Subject="";URI=spiffe://cluster.local/ns/web/sa/front',
          'x-forwarded-for': '203.0.113.7',
          'x-forwarded-proto': 'https',
          'x-request-id': id,
          'x-user': user,
        },
      },
    },
    tlsSession: { sni: `outbound_.8080_._.items.${NAMESPACE}.svc.cluster.local` },
  };
}
