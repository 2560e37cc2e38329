/**
 * A mesh for expectations about AuthorizationPolicy. Two workloads have policies: `shop.foo` allows what its policies
 * allow, `bank.foo` refuses what its policies deny. Callers are workloads behind their own proxies, identities with a
 * certificate of the mesh's authority, and clients without a proxy at several addresses.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { stringify } from 'yaml';
import {
  eventually,
  type Owner,
  type RawAnswer,
  type RawClient,
  type RawTls,
  startRawClient,
  tempDir,
} from '../../harness/index.ts';
import { type Ask, CASE_HEADER, type Caller, type SpiffeId } from './authorization-cases.ts';
import { ISSUER, OTHER_ISSUER } from './authorization-conditions.ts';
import { type Document, resource } from './config.ts';
import { type CertificateFiles, meshRoot, signedBy } from './foreign-certificate.ts';
import { type IdentityWorld, sharedService, startIdentityWorld, type Workload } from './identity-world.ts';

const WORKLOADS = [
  { name: 'shop', namespace: 'foo', proxied: true },
  { name: 'bank', namespace: 'foo', proxied: true },
  { name: 'web', namespace: 'foo', proxied: true },
  // Its namespace has another one as a prefix, and its account has the same name as the one before.
  { name: 'web', namespace: 'foo-bar', proxied: true },
  // Its account is named like a namespace.
  { name: 'foo', namespace: 'bar', proxied: true },
] as const;
export type Guarded = 'shop.foo' | 'bank.foo';

/** Numbers of the additional addresses of the client without a proxy. */
export const CLIENT_ADDRESSES = [200, 201, 202] as const;

/** TCP ports of the workloads with policies, for policies about connections: the client speaks first. */
export const TCP_PORTS: readonly number[] = Array.from({ length: 24 }, (_, index) => 9101 + index);

/** A port with HTTP whose name has no protocol: the protocol is detected. */
export const AUTO_PORT = 9180;

const MESH_CONFIG = { trustDomainAliases: ['old.domain'] };

export interface AuthorizationWorld extends IdentityWorld {
  workload(id: string): Workload;
  /** The outcome of a request to a workload: `allowed`, `denied`, `closed`, or a description. */
  ask(to: string, ask: Ask, caseId?: string): Promise<string>;
  /** The outcome of bytes sent to a port: `allowed` or `closed`. */
  talk(to: string, port: number, from: Caller, more?: { readonly at?: number; readonly sni?: string }): Promise<string>;
  /** A token that is valid; only its claims can matter. */
  token(claims: Document): Promise<string>;
}

/** The issuers of the requests' tokens, by key. */
async function tokens(): Promise<{ readonly jwks: string; sign(claims: Document): Promise<string> }> {
  const { publicKey, privateKey } = await generateKeyPair('ES256');
  const jwks = JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256', use: 'sig' }] });
  return {
    jwks,
    sign: (claims) =>
      new SignJWT({ ...claims })
        .setProtectedHeader({ alg: 'ES256', kid: 'one' })
        .setIssuedAt()
        .setExpirationTime('1h')
        .sign(privateKey),
  };
}

export async function startAuthorizationWorld(owner: Owner): Promise<AuthorizationWorld> {
  const issuer = await tokens();
  const meshConfig = join(await tempDir(owner), 'mesh.yaml');
  await writeFile(meshConfig, stringify(MESH_CONFIG));
  const jwtRules = [ISSUER, OTHER_ISSUER].map((iss) => ({ issuer: iss, jwks: issuer.jwks }));
  const world = await startIdentityWorld(owner, {
    flags: ['--meshConfig', meshConfig],
    files: { tokens: [resource('RequestAuthentication', 'tokens', { jwtRules }, 'foo')] },
  });
  const started = await Promise.all(WORKLOADS.map((each) => world.addWorkload(each)));
  const workloads = new Map(started.map((each) => [each.id, each]));
  const workload = (id: string): Workload => {
    const found = workloads.get(id);
    if (found === undefined) throw new Error(`no workload ${id}`);
    return found;
  };
  await Promise.all(['shop.foo', 'bank.foo'].map((id, index) => servePorts(world, workload(id), index)));

  const outside = await world.network.addNamespace('outside');
  for (const number of CLIENT_ADDRESSES) await outside.run('ip', 'addr', 'add', `198.18.0.${number}/24`, 'dev', 'eth0');
  const plain = await startRawClient(owner, outside);
  const clients = new Map<string, RawClient>();
  for (const each of started.slice(2)) clients.set(each.id, await startRawClient(owner, each.netns));
  const certificates = certificatesOf(owner, await meshRoot(owner, world));

  const token = async (claims: Document) => issuer.sign(JSON.parse(JSON.stringify(claims)) as Document);
  /** The source of a call and its method. */
  const callerOf = async (
    from: Caller,
    sni?: string,
    alpn?: readonly string[],
  ): Promise<{ client: RawClient; tls?: RawTls; proxied?: true }> => {
    if (from === 'plain') return { client: plain };
    if (from.startsWith('spiffe://')) {
      return { client: plain, tls: await certificates(from as SpiffeId, sni, alpn) };
    }
    const client = clients.get(from.slice('sidecar '.length));
    if (client === undefined) throw new Error(`no caller ${from}`);
    return { client, proxied: true };
  };
  return {
    ...world,
    workload,
    token,
    async ask(to, ask, caseId = 'none') {
      const { netns, serviceAddress, id } = workload(to);
      const { client, tls, proxied } = await callerOf(
        ask.from ?? 'plain',
        ask.sni,
        ask.http2 ? ['istio-h2', 'istio', 'h2'] : undefined,
      );
      const local = ask.at === undefined ? {} : { localAddress: `198.18.0.${ask.at}` };
      const service = `${workload(to).name}.${workload(to).namespace}.svc.cluster.local`;
      const host = ask.host ?? (proxied ? service : 'shop.example');
      const authorization = ask.token === undefined ? [] : [`Authorization: Bearer ${await token(ask.token)}`];
      const headers = [`${CASE_HEADER}: ${caseId}`, ...authorization, ...(ask.headers ?? [])];
      const [method = '', path = ''] = (ask.line ?? 'GET /').split(' ');
      const port = ask.port ?? 8080;
      const answer = await client({
        ...(proxied ? { address: serviceAddress, port: 80 } : { address: netns.address, port, ...local }),
        ...(tls === undefined ? {} : { tls }),
        ...(ask.http2
          ? { http2: http2Headers(method, path, host, headers) }
          : { send: (ask.before ?? '') + requestText(method, path, host, headers) }),
      });
      return httpOutcome(answer, id, method);
    },
    async talk(to, port, from, { at, sni } = {}) {
      const { netns, id } = workload(to);
      const { client, tls, proxied } = await callerOf(from, sni);
      const answer = await client({
        // The address of the TCP service contains the number of the workload.
        address: proxied ? portsAddress(to) : netns.address,
        port,
        ...(at === undefined ? {} : { localAddress: `198.18.0.${at}` }),
        ...(tls === undefined ? {} : { tls }),
        send: WORD,
        until: WORD,
      });
      if (answer.text === `${id}\n${WORD}`) return 'allowed';
      if (answer.text === '' && CUT.has(answer.end)) return 'closed';
      return `${answer.end} after ${JSON.stringify(answer.text)}`;
    },
  };
}

/** Long enough that TLS detection does not wait for more bytes. */
const WORD = 'what is said over TCP';
const CUT: ReadonlySet<string> = new Set(['closed', 'ECONNRESET', 'EPIPE']);

/** `RBAC: access denied` is Envoy's well-known body of a refusal. */
function httpOutcome({ status, text, end, grpcStatus }: RawAnswer, id: string, method: string): string {
  const answered = method === 'HEAD' || text.includes(`"name":"${id}"`);
  if (status === 200 && answered) return 'allowed';
  if (status === 403 && (method === 'HEAD' || text.endsWith('RBAC: access denied'))) return 'denied';
  // gRPC clients get PERMISSION_DENIED.
  if (status === 200 && grpcStatus === '7') return 'denied';
  if (status === 0) return CUT.has(end) && text === '' ? 'closed' : end;
  return `${status} ${text.slice(text.indexOf('\r\n\r\n') + 4).slice(0, 80)}`;
}

function requestText(method: string, path: string, host: string, headers: readonly string[]): string {
  const all = [`Host: ${host}`, 'Connection: close', 'Content-Length: 0', ...headers];
  return `${method} ${path} HTTP/1.1\r\n${all.join('\r\n')}\r\n\r\n`;
}

function http2Headers(
  method: string,
  path: string,
  authority: string,
  headers: readonly string[],
): Readonly<Record<string, string>> {
  const fields = headers.map((header) => {
    const colon = header.indexOf(':');
    return [header.slice(0, colon).toLowerCase(), header.slice(colon + 1).trim()];
  });
  return {
    ':method': method,
    ':path': path,
    ':authority': authority,
    ':scheme': 'http',
    ...Object.fromEntries(fields),
  };
}

const portsAddress = (id: string): string => (id === 'shop.foo' ? '10.96.2.1' : '10.96.2.2');

/** Starts an application at the TCP ports, with a service. */
async function servePorts(world: IdentityWorld, workload: Workload, index: number): Promise<void> {
  const program = new URL('../../harness/workload-main.ts', import.meta.url).pathname;
  const specs = [...TCP_PORTS.map((port) => `quiet:${port}`), `http:${AUTO_PORT}`];
  const child = await workload.netns.start(`ports ${workload.id}`, [process.execPath, program, workload.id, ...specs]);
  const named = (name: string, port: number) => ({ name, port, targetPort: port });
  const ports = [...TCP_PORTS.map((port) => named(`tcp-${port}`, port)), named('auto', AUTO_PORT)];
  await world.config.apply(
    `ports-${index}`,
    ...sharedService(`${workload.name}-ports`, portsAddress(workload.id), [workload], ports),
  );
  await eventually(() => {
    child.assertRunning();
    if (!child.output().includes('ready')) throw new Error(`${workload.id} does not listen yet`);
  });
}

/** Certificates of the mesh's authority for any identity, each made once. */
function certificatesOf(owner: Owner, root: CertificateFiles) {
  const made = new Map<SpiffeId, Promise<{ readonly certificate: string; readonly key: string }>>();
  const make = async (id: SpiffeId) => {
    const files = await signedBy(owner, root, `URI:${id}`);
    return { certificate: await readFile(files.certificate, 'utf8'), key: await readFile(files.key, 'utf8') };
  };
  return async (id: SpiffeId, serverName?: string, alpn: readonly string[] = ['istio']): Promise<RawTls> => {
    const pair = made.get(id) ?? make(id);
    made.set(id, pair);
    return { ...(await pair), alpn, ...(serverName === undefined ? {} : { serverName }) };
  };
}
