/**
 * A mesh for end users' tokens: gateways and sidecars over both protocols, with echo backends behind them, and two
 * issuers with keys of the test: `one` signs with RSA and publishes its keys by HTTP, `two` signs with EC and has its
 * keys in the policy.
 *
 *   curl ─▶ gateway-sotw, gateway-delta (edge) ─▶ web, api
 *   curl ─▶ server-sotw, server-delta (default) ─▶ web
 */
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { type Owner, startEcho } from '../../harness/index.ts';
import { type Document, endpoints, resource, service } from './config.ts';
import { always, type KeyServer, keyServer } from './key-server.ts';
import { type MeshProxy, MODES, planMesh, sidecar, startMesh, type TestMesh } from './mesh.ts';

/** The address and port of gateways and sidecars. */
export const HTTP = 7083;
const BACKEND_PORT = 7483;

/** Its keys are fetched. */
export const ONE = 'https://one.test';
/** Its keys are in the policy. */
export const TWO = 'two@issuers.test';
/** The same keys, and only for some audiences. */
export const THREE = 'three@issuers.test';

export type Place = 'gateway' | 'sidecar';

/** A proxy with token rules. */
export interface Site {
  readonly place: Place;
  readonly proxy: MeshProxy;
}

/** The common label of the proxies, and their namespaces, for policies that apply to all of them. */
export const GUARDED = { role: 'guarded' };
export const NAMESPACES = { gateway: 'edge', sidecar: 'default' } as const satisfies Record<Place, string>;

export interface Signer {
  readonly jwks: string;
  /** A token with these claims, which is valid for one hour unless they say otherwise. */
  token(claims: Document, header?: Document): Promise<string>;
}

export interface JwtWorld extends TestMesh {
  readonly sites: readonly Site[];
  readonly keys: KeyServer;
  readonly one: Signer;
  readonly two: Signer;
}

export const inSeconds = (seconds: number): number => Math.floor(Date.now() / 1000) + seconds;

export async function signer(alg: 'RS256' | 'ES256', kid: string): Promise<Signer> {
  const { publicKey, privateKey } = await generateKeyPair(alg);
  const jwks = JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid, alg, use: 'sig' }] });
  return {
    jwks,
    token: (claims, header = {}) =>
      new SignJWT({ exp: inSeconds(3600), ...claims }).setProtectedHeader({ alg, kid, ...header }).sign(privateKey),
  };
}

export async function startJwtWorld(owner: Owner, flags: readonly string[] = []): Promise<JwtWorld> {
  const address = planMesh();
  const [one, two] = await Promise.all([signer('RS256', 'one'), signer('ES256', 'two')]);
  const keys = await keyServer(owner, always(one.jwks));
  await keys.up();
  const backends = await Promise.all(
    ['web', 'api'].map((name, index) => startEcho(owner, { name, address: address(21 + index), port: BACKEND_PORT })),
  );
  // Sidecars forward to their own loopback address.
  const beside = await startEcho(owner, { name: 'web' });
  const gateways = MODES.map((mode, index) => ({ name: `gateway-${mode}`, mode, address: address(10 + index) }));
  const servers = MODES.map((mode, index) => ({ name: `server-${mode}`, mode, address: address(30 + index) }));
  const port = { number: HTTP, name: 'http', protocol: 'HTTP' };
  const mesh = await startMesh(owner, address, {
    flags,
    env: { CTL_JWT_PUB_KEY_REFRESH_INTERVAL: '1s' },
    files: {
      services: backends.flatMap(({ name, address: ip, port: number }) => [
        service(name, { ports: [{ name: 'http', port: BACKEND_PORT }] }),
        endpoints(name, [ip], [{ name: 'http', port: number }]),
      ]),
      gateways: gateways.map(({ name, address: bind }) =>
        resource('Gateway', name, { selector: { app: name }, servers: [{ hosts: ['*'], port, bind }] }, 'edge'),
      ),
      routes: [routes()],
      sidecars: servers.map(({ name, address: at }) =>
        sidecar(name, {
          address: at,
          ingress: [{ number: HTTP, protocol: 'HTTP', to: `127.0.0.1:${beside.port}` }],
        }),
      ),
    },
  });
  const start = (place: Place, list: typeof gateways) =>
    list.map(async (each): Promise<Site> => {
      const labels = { app: each.name, ...GUARDED };
      const type = place === 'gateway' ? 'router' : 'sidecar';
      return { place, proxy: await mesh.startProxy({ ...each, type, namespace: NAMESPACES[place], labels }) };
    });
  const sites = await Promise.all([...start('gateway', gateways), ...start('sidecar', servers)]);
  return { ...mesh, sites, keys, one, two };
}

/** Routes everything to `web` and one host to `api`; `more` routes come first. */
export function routes(...more: readonly Document[]): Document {
  const to = (name: string) => [{ destination: { host: `${name}.default.svc.cluster.local` } }];
  const http = [...more, { match: [{ authority: { exact: 'api.test' } }], route: to('api') }, { route: to('web') }];
  return resource('VirtualService', 'web', {
    hosts: ['*'],
    gateways: MODES.map((mode) => `edge/gateway-${mode}`),
    http,
  });
}

/** A copy of a resource for each place, because a policy must be in the namespace of its workloads. */
export function everywhere(kind: string, name: string, spec: Document): Document[] {
  const selected = { selector: { matchLabels: GUARDED }, ...spec };
  return Object.values(NAMESPACES).map((namespace) => resource(kind, name, selected, namespace));
}

export const authentication = (...jwtRules: readonly Document[]): Document[] =>
  everywhere('RequestAuthentication', 'tokens', { jwtRules });

/** Requires a principal; with paths, only for these. */
export const tokensOnly = (...paths: readonly string[]): Document[] =>
  everywhere('AuthorizationPolicy', 'tokens-only', {
    action: 'DENY',
    rules: [
      {
        from: [{ source: { notRequestPrincipals: ['*'] } }],
        ...(paths.length === 0 ? {} : { to: [{ operation: { paths } }] }),
      },
    ],
  });
