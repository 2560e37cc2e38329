/** The certificate service and its TLS over real sockets: which credential may call what. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { after, before, describe, it } from 'node:test';
import { connect, type TLSSocket } from 'node:tls';
import { type ServiceError, status } from '@grpc/grpc-js';
import { CtlError } from '../core/errors.ts';
import { createGrpcServer, type GrpcServer, type UnaryHandler } from '../grpc/index.ts';
import { encode, mesh } from '../protobuf/index.ts';
import { createAuthentication } from './authentication.ts';
import { createCertificateAuthenticator } from './certificate-authenticator.ts';
import { createCertificateServices } from './certificate-service.ts';
import {
  type Ca,
  DAY_MS,
  derOf,
  ecKey,
  ISSUER,
  type KeyPair,
  type LeafOptions,
  makeCa,
  makeLeaf,
  NOW,
  pemOf,
  rootsOf,
  type TestIssuer,
  testIssuer,
} from './testing/credentials.ts';
import { unaryCall } from './testing/unary-call.ts';
import { credentialsOfCall, MeshServerCredentials } from './tls-credentials.ts';
import { createTokenAuthenticator } from './token-authenticator.ts';
import { TrustBundles } from './trust.ts';
import type { SigningRequest } from './types.ts';

const { MeshCertificateRequest, MeshCertificateResponse, TrustBundleResponse } = mesh.v1.auth;

/** Clients verify the server by the machine's clock; callers are verified by the clock of the tests. */
const REAL = { notBefore: Date.now() - DAY_MS, notAfter: Date.now() + DAY_MS };
const serverCa = makeCa({ name: 'server-root', ...REAL });
const root = makeCa({ name: 'root' });
const middle = makeCa({ name: 'middle', issuer: root });
const foreign = makeCa({ name: 'foreign' });
const FOREIGN = 'spiffe://other.example/ns/shop/sa/web';

function serverTls(name = 'localhost') {
  const keys = ecKey('P-256');
  const leaf = makeLeaf({ issuer: serverCa, keys, uris: [], dnsNames: [name], ...REAL });
  const key = String(keys.privateKey.export({ type: 'pkcs8', format: 'pem' }));
  return { chain: pemOf(leaf), key, requiredCa: undefined };
}

const tls = new MeshServerCredentials(serverTls(), () => NOW);
const seen: string[] = [];
const signed: SigningRequest[] = [];
let server: GrpcServer;
let issuer: TestIssuer;
let securePort = 0;
let plainPort = 0;

/** Answers with the credentials of the call. */
const show: UnaryHandler = async (shown) => {
  const { certificates, bearer } = credentialsOfCall(shown) ?? { certificates: undefined, bearer: undefined };
  const list = certificates?.map((der) => Buffer.from(der).toString('base64'));
  return Buffer.from(JSON.stringify({ list, bearer }));
};

/** The same, and refuses the caller. */
const refuse: UnaryHandler = (shown) => {
  tls.refused(shown.connection);
  return show(shown);
};

before(async () => {
  issuer = await testIssuer();
  const trust = new TrustBundles();
  trust.set('cluster.local', 'mesh', rootsOf(root));
  trust.set('other.example', 'bundle', rootsOf(foreign));
  const now = () => NOW;
  const keys = async () => issuer.jwks;
  const authentication = createAuthentication(
    [
      createCertificateAuthenticator({ trust, now }),
      createTokenAuthenticator({
        issuers: [{ issuer: ISSUER, keys: { keys, newerKeys: keys } }],
        trustDomain: 'cluster.local',
        audiences: ['mesh-ca'],
        withoutAudience: false,
        now,
      }),
    ],
    () => seen.push('unknown'),
  );
  const services = createCertificateServices({
    authority: {
      sign: async (request) => {
        if (request.csr === 'bad') throw new CtlError('invalid_argument', 'not a request');
        if (request.csr === 'broken') throw new Error('secret detail');
        signed.push(request);
        return ['leaf', 'root'];
      },
      trustBundle: () => ['root', 'next'],
    },
    authentication,
    trustDomain: 'cluster.local',
    trustDomainAliases: ['old.example'],
    observer: {
      requested: () => seen.push('requested'),
      unfitIdentity: () => seen.push('unfit'),
      issued: () => seen.push('issued'),
      refused: (_peer, error) => seen.push(`refused ${error.code}`),
      internalError: (error) => seen.push(`internal ${String(error)}`),
    },
  });
  server = createGrpcServer({
    listeners: [
      { host: '127.0.0.1', port: 0, tls },
      { host: '127.0.0.1', port: 0 },
    ],
    services: [
      ...services,
      {
        unary: {
          '/test/Shown': { handler: show, maxReceiveBytes: 1024 },
          '/test/Refused': { handler: refuse, maxReceiveBytes: 1024 },
        },
      },
    ],
    observer: {
      refused: () => {},
      endedEarly: () => {},
      requestTooLarge: () => {},
      internalError: (error) => seen.push(String(error)),
    },
    maxStreams: 100,
    maxConnections: Number.POSITIVE_INFINITY,
    keepaliveIntervalMs: 30_000,
    keepaliveTimeoutMs: 10_000,
    idleMs: 60_000,
    sendTimeoutMs: 5000,
    requestTimeoutMs: 10_000,
    maxIncomplete: 100,
  });
  await server.start();
  [securePort = 0, plainPort = 0] = server.ports();
});

after(() => server.destroy());

interface Shown {
  readonly keys: KeyPair;
  readonly chain: readonly Buffer[];
}

function workload(issuedBy: Ca, changes: Partial<LeafOptions> = {}, ...more: readonly Buffer[]): Shown {
  const keys = ecKey('P-256');
  return { keys, chain: [makeLeaf({ issuer: issuedBy, keys, ...changes }), ...more] };
}

function call(
  path: string,
  request: Uint8Array,
  shown?: Shown,
  token?: string,
  port = securePort,
  trustDomain?: string,
): Promise<Buffer> {
  const key = shown?.keys.privateKey.export({ type: 'pkcs8', format: 'pem' });
  const client = key === undefined ? undefined : { key: Buffer.from(key), chain: pemOf(...(shown?.chain ?? [])) };
  const roots = port === plainPort ? undefined : serverCa.certificate;
  return unaryCall(port, path, request, { roots, client, token, trustDomain });
}

const MESH = '/mesh.v1.auth.MeshCertificateService';
const METHODS = [
  `${MESH}/CreateCertificate`,
  `${MESH}/GetTrustBundle`,
  '/istio.v1.auth.IstioCertificateService/CreateCertificate',
];

describe('who may call what', () => {
  const CALLERS: readonly (readonly [string, () => Promise<{ shown?: Shown; token?: string }>, string, string])[] = [
    ['nothing', async () => ({}), 'UNAUTHENTICATED', 'UNAUTHENTICATED'],
    ['a token', async () => ({ token: await issuer.token() }), 'OK', 'OK'],
    [
      'an expired token',
      async () => ({ token: await issuer.token({ exp: NOW / 1000 - 1 }) }),
      'UNAUTHENTICATED',
      'UNAUTHENTICATED',
    ],
    ['a certificate', async () => ({ shown: workload(root) }), 'OK', 'OK'],
    ['a certificate of an intermediate', async () => ({ shown: workload(middle, {}, derOf(middle)) }), 'OK', 'OK'],
    [
      'an expired certificate',
      async () => ({ shown: workload(root, { notAfter: NOW - 1000 }) }),
      'UNAUTHENTICATED',
      'UNAUTHENTICATED',
    ],
    [
      'a certificate of a stranger',
      async () => ({ shown: workload(makeCa({ name: 'root' })) }),
      'UNAUTHENTICATED',
      'UNAUTHENTICATED',
    ],
    [
      'an expired certificate and a token',
      async () => ({ shown: workload(root, { notAfter: NOW - 1000 }), token: await issuer.token() }),
      'OK',
      'OK',
    ],
    [
      'a certificate of another mesh',
      async () => ({ shown: workload(foreign, { uris: [FOREIGN] }) }),
      'PERMISSION_DENIED',
      'OK',
    ],
  ];
  for (const [what, make, creation, bundle] of CALLERS)
    for (const method of METHODS)
      it(`${what} → ${method}`, async () => {
        const { shown, token } = await make();
        const wanted = method.endsWith('GetTrustBundle') ? bundle : creation;
        const request = method.endsWith('GetTrustBundle')
          ? new Uint8Array()
          : encode(MeshCertificateRequest, { csr: 'csr' });
        const got = await call(method, request, shown, token).then(
          () => 'OK',
          (error: ServiceError) => status[error.code],
        );
        assert.equal(got, wanted);
        const open = await call(method, request, undefined, token, plainPort).catch((error: ServiceError) => error);
        assert.equal((open as ServiceError).code, status.UNIMPLEMENTED);
      });
});

describe('the certificate service', () => {
  const create = `${MESH}/CreateCertificate`;

  it('signs for the caller’s identity with the requested lifetime', async () => {
    const token = await issuer.token();
    const request = encode(MeshCertificateRequest, { csr: 'mine', validityDuration: 90 });
    const { certChain } = MeshCertificateResponse.decode(await call(create, request, undefined, token));
    assert.deepEqual(certChain, ['leaf', 'root']);
    const identity = { trustDomain: 'cluster.local', namespace: 'shop', serviceAccount: 'web' };
    assert.deepEqual(signed.at(-1), { csr: 'mine', identity, lifetimeSeconds: 90 });
    await call(create, encode(MeshCertificateRequest, { csr: 'mine', validityDuration: -5 }), undefined, token);
    assert.equal(signed.at(-1)?.lifetimeSeconds, -5);
    const bundle = TrustBundleResponse.decode(await call(`${MESH}/GetTrustBundle`, new Uint8Array(), undefined, token));
    assert.deepEqual(bundle.roots, ['root', 'next']);
  });

  it('refuses a workload that is configured with another trust domain, unless that is an alias', async () => {
    const request = encode(MeshCertificateRequest, { csr: 'csr' });
    const ask = async (trustDomain: string) =>
      call(`${MESH}/CreateCertificate`, request, undefined, await issuer.token(), securePort, trustDomain);
    for (const fit of ['cluster.local', 'old.example']) assert.ok((await ask(fit)).length > 0, fit);
    await assert.rejects(ask('other.example'), {
      code: status.PERMISSION_DENIED,
      details:
        'certificates are issued for trust domain cluster.local, but the workload is set to "other.example" ' +
        '(--trust-domain, TRUST_DOMAIN or trustDomain of its agent)',
    });
  });

  it('tells callers their mistakes, and nothing about internal errors', async () => {
    const token = await issuer.token();
    seen.length = 0;
    const send = (csr: string) => call(create, encode(MeshCertificateRequest, { csr }), undefined, token);
    await assert.rejects(send('bad'), { code: status.INVALID_ARGUMENT, details: 'not a request' });
    await assert.rejects(send('broken'), { code: status.INTERNAL, details: 'internal error' });
    await assert.rejects(call(create, Buffer.from([0x0a, 0xff]), undefined, token), { code: status.INVALID_ARGUMENT });
    assert.deepEqual(seen, [
      'requested',
      'refused invalid_argument',
      'requested',
      'internal Error: secret detail',
      'requested',
      'refused invalid_argument',
    ]);
  });
});

describe('the TLS of the secure gRPC address', () => {
  const shownBy = async (shown?: Shown, port = securePort): Promise<{ list?: string[]; bearer?: string }> =>
    JSON.parse(String(await call('/test/Shown', new Uint8Array(), shown, 'abc', port)));

  it('gives the whole chain of a caller under any issuer, and the token', async () => {
    const shown = workload(middle, {}, derOf(middle));
    const { list = [], bearer } = await shownBy(shown);
    assert.deepEqual(
      list.slice(0, 2),
      shown.chain.map((der) => der.toString('base64')),
    );
    assert.equal(bearer, 'abc');
    assert.deepEqual((await shownBy()).list, []);
    assert.deepEqual(await shownBy(undefined, plainPort), {});
  });

  const handshake = (options: object = {}): Promise<TLSSocket> =>
    new Promise((resolve, reject) => {
      const socket = connect(
        {
          port: securePort,
          host: '127.0.0.1',
          servername: 'localhost',
          ca: serverCa.certificate,
          ALPNProtocols: ['h2'],
          ...options,
        },
        () => resolve(socket),
      );
      socket.once('error', reject);
    });

  /** The credentials of a call on a connection with a session, and whether the session was resumed. */
  async function resumed(
    shown: Shown,
    options: object,
    path = '/test/Shown',
  ): Promise<{ reused: boolean; list?: string[] }> {
    const key = String(shown.keys.privateKey.export({ type: 'pkcs8', format: 'pem' }));
    const socket = await handshake({ cert: pemOf(...shown.chain), key, ...options });
    const client = connectHttp2(`https://localhost:${securePort}`, { createConnection: () => socket });
    try {
      const headers = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' };
      const stream = client.request(headers).end(Buffer.alloc(5));
      const answer = Buffer.concat(await stream.toArray());
      return { reused: socket.isSessionReused(), ...JSON.parse(String(answer.subarray(5))) };
    } finally {
      client.destroy();
    }
  }

  /** A session of a client that has presented this chain. */
  async function sessionOf({ keys, chain }: Shown, maxVersion: string): Promise<Buffer | undefined> {
    const key = String(keys.privateKey.export({ type: 'pkcs8', format: 'pem' }));
    const first = await handshake({ cert: pemOf(...chain), key, maxVersion });
    let session: Buffer | undefined = first.getSession();
    first.on('session', (ticket: Buffer) => (session = ticket));
    await once(first, 'data');
    first.destroy();
    return session;
  }

  it('resumes a session, with the certificates that the client presented at its beginning', async () => {
    const shown = workload(middle, {}, derOf(middle));
    const session = await sessionOf(shown, 'TLSv1.2');
    const { reused, list } = await resumed(shown, { session, maxVersion: 'TLSv1.2' });
    assert.equal(reused, true);
    assert.deepEqual(
      list,
      shown.chain.map((der) => der.toString('base64')),
    );
  });

  it('does not resume a session of TLS 1.3', async () => {
    const shown = workload(middle, {}, derOf(middle));
    const { reused, list } = await resumed(shown, { session: await sessionOf(shown, 'TLSv1.3') });
    assert.deepEqual([reused, list?.length], [false, 2]);
  });

  it('does not resume a session of a client that was refused', async () => {
    const [shown, renewed] = [workload(root), workload(middle, {}, derOf(middle))];
    const options = { session: await sessionOf(shown, 'TLSv1.2'), maxVersion: 'TLSv1.2' };
    assert.equal((await resumed(shown, options, '/test/Refused')).reused, true);
    const { reused, list } = await resumed(renewed, options);
    assert.deepEqual([reused, list?.length], [false, 2]);
  });

  it('does not resume a session from before its certificate or its authority was replaced', async () => {
    const shown = workload(root);
    const session = await sessionOf(shown, 'TLSv1.2');
    tls.renew(serverTls());
    assert.equal((await resumed(shown, { session, maxVersion: 'TLSv1.2' })).reused, false);
  });

  it('refuses older versions of TLS', async () => {
    await assert.rejects(handshake({ minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }));
  });

  it('gives a new certificate to new connections only', async () => {
    const before = await handshake();
    const renewed = serverTls();
    tls.renew(renewed);
    const next = await handshake();
    assert.notEqual(next.getPeerX509Certificate()?.fingerprint256, before.getPeerX509Certificate()?.fingerprint256);
    assert.equal(before.destroyed, false);
    assert.equal(next.authorized, true);
    before.destroy();
    next.destroy();
    assert.deepEqual((await shownBy(workload(root))).list?.length, 1);
  });
});
