/**
 * A mesh for end users' tokens: gateways and sidecars, each fed by either protocol, with echo backends behind them, and two issuers whose keys
 * the test has itself: `one` signs with RSA and publishes its keys by HTTP, `two` signs with EC and has them in the policy.
 *
 *   curl ─▶ gateway-sotw, gateway-delta (edge) ─▶ web, api
 *   curl ─▶ server-sotw, server-delta (default) ─▶ web
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { type EchoReply, eventually, type Owner, startEcho } from '../../harness/index.ts';
import { type Document, endpoints, resource, service } from './config.ts';
import { always, type KeyServer, keyServer } from './key-server.ts';
import { type MeshProxy, MODES, planMesh, sidecar, startMesh, type TestMesh } from './mesh.ts';

const HTTP = 7083;
const BACKEND_PORT = 7483;

export type Place = 'gateway' | 'sidecar';

/** A proxy that guards something. */
export interface Site {
  readonly place: Place;
  readonly proxy: MeshProxy;
}

/** The label that all of them have, and their namespaces: what a policy has to say to hold for each. */
export const GUARDED = { role: 'guarded' };
export const NAMESPACES = { gateway: 'edge', sidecar: 'default' } as const satisfies Record<Place, string>;

export interface Signer {
  readonly jwks: string;
  /** A token with these claims, which holds for an hour unless they say otherwise. */
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
  // Sidecars pass on to their own loopback address.
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

/** Everything to `web`, one host to `api`; `more` routes go before. */
export function routes(...more: readonly Document[]): Document {
  const to = (name: string) => [{ destination: { host: `${name}.default.svc.cluster.local` } }];
  const http = [...more, { match: [{ authority: { exact: 'api.test' } }], route: to('api') }, { route: to('web') }];
  return resource('VirtualService', 'web', {
    hosts: ['*'],
    gateways: MODES.map((mode) => `edge/gateway-${mode}`),
    http,
  });
}

/** A resource for each place, as a policy has to be of the namespace of those whom it holds for. */
export function everywhere(kind: string, name: string, spec: Document): Document[] {
  const selected = { selector: { matchLabels: GUARDED }, ...spec };
  return Object.values(NAMESPACES).map((namespace) => resource(kind, name, selected, namespace));
}

export interface Call {
  readonly path?: string;
  readonly method?: string;
  readonly host?: string;
  /** `name: value`, as curl takes them. */
  readonly headers?: readonly string[];
}

export interface Answer {
  readonly status: number;
  readonly body: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, readonly string[]>>;
  /** What the backend saw, where it was one that answered. */
  readonly seen: EchoReply | undefined;
}

/** What curl gets. */
export async function curl({ proxy }: Site, { path = '/', method = 'GET', host, headers = [] }: Call): Promise<Answer> {
  const all = host === undefined ? headers : [`Host: ${host}`, ...headers];
  const { stdout } = await promisify(execFile)('curl', [
    ...['-s', '-m', '10', '-X', method, '-w', '\n%{http_code} %{exitcode}\n%{header_json}'],
    ...all.flatMap((header) => ['-H', header]),
    `http://${proxy.address}:${HTTP}${path}`,
  ]);
  const [, body = '', status = '0', , json = '{}'] = /^([\s\S]*)\n(\d{3}) (\d+)\n(\{[\s\S]*)$/.exec(stdout) ?? [];
  const seen = status === '200' ? (JSON.parse(body) as EchoReply) : undefined;
  return { status: Number(status), body, headers: JSON.parse(json) as Answer['headers'], seen };
}

/** `200`, or the status and what is said of it. */
export function outcomeOf({ status, body }: Answer): string {
  return status === 200 ? '200' : `${status} ${body.trim()}`.trim();
}

export const bearer = (token: string): string => `Authorization: Bearer ${token}`;

/** A request and what must come of it. */
export interface Row extends Call {
  readonly what: string;
  readonly expected: string;
}

/** Outcomes as they came, for a table that people read. */
export class JwtTable {
  /** Policy → row → outcome → places. */
  readonly #met = new Map<string, Map<string, Map<string, Set<string>>>>();

  /** Waits until all rows are as expected at once, at each of the sites, and notes them. */
  async check(policy: string, sites: readonly Site[], rows: readonly Row[]): Promise<void> {
    await Promise.all(
      sites.map((site) =>
        eventually(
          async () => {
            const seen: string[] = [];
            for (const row of rows) seen.push(`${row.what}: ${outcomeOf(await curl(site, row))}`);
            const expected = rows.map((row) => `${row.what}: ${row.expected}`);
            if (seen.join('\n') !== expected.join('\n'))
              throw new Error(`${site.proxy.name}: ${differing(seen, expected)}`);
          },
          { timeoutMs: 30_000, intervalMs: 100 },
        ),
      ),
    );
    for (const row of rows) for (const site of sites) this.#note(policy, row, site);
  }

  #note(policy: string, { what, expected }: Row, { place }: Site): void {
    const rows = this.#met.get(policy) ?? new Map<string, Map<string, Set<string>>>();
    this.#met.set(policy, rows);
    const outcomes = rows.get(what) ?? new Map<string, Set<string>>();
    rows.set(what, outcomes);
    const places = outcomes.get(expected) ?? new Set<string>();
    outcomes.set(expected, places.add(place));
  }

  print(): void {
    const lines = [...this.#met].flatMap(([policy, rows]) => [
      policy,
      ...[...rows].map(([what, outcomes]) => {
        const cells = [...outcomes].map(([outcome, places]) => `${outcome} (${[...places].join(', ')})`);
        return `  ${what.padEnd(52)} ${cells.join(' | ')}`;
      }),
    ]);
    process.stdout.write(`Tokens and what came of them:\n${lines.join('\n')}\n`);
  }
}

function differing(seen: readonly string[], expected: readonly string[]): string {
  return seen
    .flatMap((line, index) => (line === expected[index] ? [] : [`${line}, expected ${expected[index]}`]))
    .join('; ');
}
