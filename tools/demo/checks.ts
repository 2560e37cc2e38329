/** The checks of the demo. Each is one line for the user and fails with the observed result. */
import { join } from 'node:path';
import { eventually, type Namespace, type Response, request } from '../../test/harness/index.ts';
import type { ApplicationReply } from './applications.ts';
import { identityOf } from './identity.ts';
import type { DemoMesh } from './mesh.ts';
import type { Place } from './ports.ts';
import type { Redirection } from './redirection.ts';
import { editFile } from './samples.ts';
import { readState } from './state.ts';
import { countOf } from './traffic.ts';

export interface Check {
  /** The checked behaviour, as a sentence. */
  readonly name: string;
  /**
   * Resolves with a detail to show, or rejects; with {@link Skip} when the machine does not support the check.
   */
  readonly run: (mesh: DemoMesh) => Promise<string>;
}

/** Why a check is skipped. */
export class Skip extends Error {}

const redirectedCheck =
  (run: (redirection: Redirection) => Promise<string>) =>
  async ({ redirection }: DemoMesh): Promise<string> => {
    if (typeof redirection === 'string') throw new Skip(redirection);
    return run(redirection);
  };

/** Number of requests for weights: with 400, a share of 20 % deviates by 10 points once in millions of runs. */
const SAMPLE_SIZE = 400;
const SHARE_OF_V2 = { from: 0.1, to: 0.3 };
/** So many equal answers in a row are not a coincidence. */
const IN_A_ROW = 20;
/** The limit for the effect of an edit, milliseconds: enough for a busy machine. */
const EDIT_TIMEOUT_MS = 15_000;

interface Call {
  readonly path: string;
  readonly host?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const call = ({ address, port }: Place, options: Call): Promise<Response> => request({ address, port, ...options });

function expectStatus(answer: Response, status: number): void {
  if (answer.status !== status) throw new Error(`status ${answer.status} instead of ${status}: ${answer.body.trim()}`);
}

async function reply(place: Place, options: Call): Promise<ApplicationReply> {
  const answer = await call(place, options);
  expectStatus(answer, 200);
  return answer.json() as ApplicationReply;
}

function expectReply(actual: ApplicationReply, expected: Partial<ApplicationReply>): string {
  for (const [key, value] of Object.entries(expected)) {
    const seen = actual[key as keyof ApplicationReply];
    if (seen !== value) throw new Error(`${key} is ${JSON.stringify(seen)} instead of ${JSON.stringify(value)}`);
  }
  return Object.entries(expected)
    .map(([key, value]) => (key === 'app' ? value : `${key} ${value}`))
    .join(', ');
}

/** The applications that answer /hello at the gateway, over many requests. */
async function answers(mesh: DemoMesh, count: number): Promise<string[]> {
  const names: string[] = [];
  for (let i = 0; i < count; i++) names.push((await reply(mesh.places.gateway, { path: '/hello' })).app);
  return names;
}

/** The first answer of this application among weighted requests. */
async function replyOf(mesh: DemoMesh, app: string): Promise<ApplicationReply> {
  for (let i = 0; i < SAMPLE_SIZE; i++) {
    const answer = await reply(mesh.places.gateway, { path: '/hello' });
    if (answer.app === app) return answer;
  }
  throw new Error(`${app} answers none of ${SAMPLE_SIZE} requests`);
}

/** The identities that the application sees must be exactly these, of server and client. */
function expectIdentities(answer: ApplicationReply, server: string, client: string): string {
  const seen = answer['x-forwarded-client-cert'] ?? 'no certificate';
  const expected = /^By=([^;]+);Hash=[0-9a-f]{64};Subject="";URI=([^;,]+)$/.exec(seen);
  if (expected?.[1] !== identityOf(server) || expected[2] !== identityOf(client)) throw new Error(seen);
  return `${answer.app} sees ${identityOf(client)}`;
}

function expectPlain(answer: ApplicationReply): string {
  const seen = answer['x-forwarded-client-cert'];
  if (seen !== undefined) throw new Error(seen);
  return `${answer.app} sees no certificate`;
}

const PLAIN: Call = { path: '/', host: 'hello' };

/** A call without certificate at the sidecar of hello-v1 must end without an answer (curl: exit code 56). */
async function plainIsRefused({ places }: DemoMesh): Promise<void> {
  let answer: Response;
  try {
    answer = await call(places.helloSidecar, PLAIN);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ECONNRESET') return;
    throw error;
  }
  throw new Error(`status ${answer.status}`);
}

/** A plain call of an application in a namespace, by the name of a service. */
async function callIn(netns: Namespace, url: string): Promise<ApplicationReply> {
  const text = await netns.run('curl', '-sS', '--fail', '--max-time', '5', url);
  return JSON.parse(text) as ApplicationReply;
}

/** A client without a proxy calls a redirected workload: the connection must be closed (curl: exit code 56). */
async function plainIntoNamespaceIsRefused({ outside, stock }: Redirection): Promise<void> {
  await eventually(async () => {
    const code = await callIn(outside, `http://${stock.netns.address}:8080/`).then(
      () => 0,
      (error: { readonly code?: unknown }) => error.code,
    );
    if (code !== 56) throw new Error(`curl at stock ends with ${String(code)}`);
  });
}

async function ordersCallStock({ stock, urls }: Redirection): Promise<string> {
  const orders = await callIn(stock.netns, urls.orders);
  if (typeof orders.called !== 'object') throw new Error(`stock: ${orders.called ?? 'not called'}`);
  return `${expectIdentities(orders, 'orders', 'stock')}, ${expectIdentities(orders.called, 'stock', 'orders')}`;
}

async function strict(mesh: DemoMesh): Promise<string> {
  const edit = { file: 'peer-authentication.yaml', from: 'mode: PERMISSIVE', to: 'mode: STRICT' };
  const when = await afterEdit(mesh, edit, () => plainIsRefused(mesh));
  expectIdentities(await replyOf(mesh, 'hello-v1'), 'hello', 'gateway');
  expectPlain(await replyOf(mesh, 'hello-v2'));
  if (typeof mesh.redirection !== 'string') await plainIntoNamespaceIsRefused(mesh.redirection);
  return `connection reset ${when}; the gateway still reaches both versions`;
}

async function statusAt(place: Place, options: Call, status: number): Promise<string> {
  expectStatus(await call(place, options), status);
  return `status ${status}`;
}

async function redirected({ places }: DemoMesh): Promise<string> {
  const answer = await call(places.gateway, { path: '/old' });
  expectStatus(answer, 302);
  const to = new URL(answer.headers.location ?? '').pathname;
  if (to !== '/hello') throw new Error(`leads to ${to} instead of /hello`);
  return '302 to /hello';
}

async function weighted(mesh: DemoMesh): Promise<string> {
  const counts = countOf(await answers(mesh, SAMPLE_SIZE));
  const share = (counts.get('hello-v2') ?? 0) / SAMPLE_SIZE;
  const seen = [...counts].map(([name, count]) => `${name} ${((count / SAMPLE_SIZE) * 100).toFixed(1)} %`).join(', ');
  if (counts.size !== 2 || share < SHARE_OF_V2.from || share > SHARE_OF_V2.to) throw new Error(seen);
  return seen;
}

async function allInSync(mesh: DemoMesh): Promise<string> {
  const state = await eventually(async () => {
    const now = await readState(mesh);
    const late = now.proxies.find(({ sync }) => sync !== 'synced');
    if (late !== undefined) throw new Error(`${late.workload} is ${late.sync}: ${late.rejection ?? ''}`);
    return now;
  });
  if (state.problems.length > 0) throw new Error(state.problems.join('; '));
  const protocols = state.proxies.map(({ workload, protocol }) => `${workload} ${protocol}`);
  const expected = ['gateway.demo sotw', ...mesh.proxies.slice(1).map(({ workload }) => `${workload} delta`)];
  if (protocols.join(', ') !== expected.join(', ')) throw new Error(protocols.join(', '));
  return protocols.join(', ');
}

async function afterEdit(
  mesh: DemoMesh,
  edit: { readonly file: string; readonly from: string; readonly to: string },
  attempt: () => Promise<unknown>,
): Promise<string> {
  await editFile(join(mesh.configDir, edit.file), edit.from, edit.to);
  const saved = performance.now();
  let first = 0;
  await eventually(
    async () => {
      first = performance.now();
      await attempt();
    },
    { timeoutMs: EDIT_TIMEOUT_MS, intervalMs: 5 },
  );
  return `${Math.round(first - saved)} ms after the file was saved`;
}

async function onlyV2(mesh: DemoMesh): Promise<void> {
  for (let i = 0; i < IN_A_ROW; i++) {
    const { app } = await reply(mesh.places.gateway, { path: '/hello' });
    if (app !== 'hello-v2') throw new Error(`${app} answers`);
  }
}

async function problems(mesh: DemoMesh, expected: RegExp | undefined): Promise<void> {
  const state = await readState(mesh);
  const listed = state.problems.join('; ');
  const asExpected = expected === undefined ? state.problems.length === 0 : expected.test(listed);
  if (!asExpected) throw new Error(`problems listed: ${listed === '' ? 'none' : listed}`);
}

const PRIVATE: Call = { path: '/private/items' };
const V2_BY_HEADER: Call = { path: '/hello', headers: { 'x-version': 'v2' } };

/** In this order: edits come last, and each reverts the one before or is independent of it. */
export const CHECKS: readonly Check[] = [
  { name: 'every proxy has what it should have, and has acknowledged it', run: allInSync },
  { name: 'the gateway spreads requests by weight', run: weighted },
  {
    name: 'a header chooses version v2',
    run: async ({ places }) => expectReply(await reply(places.gateway, V2_BY_HEADER), { app: 'hello-v2' }),
  },
  { name: 'an old address is redirected', run: redirected },
  {
    name: 'a path is rewritten before the application sees it',
    run: async ({ places }) =>
      expectReply(await reply(places.gateway, { path: '/shop/items' }), { app: 'shop', path: '/items' }),
  },
  {
    name: 'retries hide an application that fails every other time',
    run: async ({ places }) => {
      for (let i = 0; i < IN_A_ROW; i++) await reply(places.gateway, { path: '/flaky' });
      return `${IN_A_ROW} of ${IN_A_ROW} requests succeed`;
    },
  },
  { name: 'a slow answer is not waited for', run: ({ places }) => statusAt(places.gateway, { path: '/slow' }, 504) },
  {
    name: 'a path without a route is not found',
    run: ({ places }) => statusAt(places.gateway, { path: '/nowhere' }, 404),
  },
  {
    name: 'a path for end users is closed to those without a token',
    // The keys of the issuer are fetched in the background.
    run: ({ places }) => eventually(() => statusAt(places.gateway, PRIVATE, 403)),
  },
  {
    name: '… and open with one that ctl-jwt has signed',
    run: async ({ places, endUsers }) => {
      const headers = { authorization: `Bearer ${await endUsers.token()}` };
      return expectReply(await eventually(() => reply(places.gateway, { ...PRIVATE, headers })), { app: 'shop' });
    },
  },
  {
    name: '… and the token of a stranger is refused everywhere',
    run: async ({ places, endUsers }) => {
      const headers = { authorization: `Bearer ${await endUsers.token('stranger')}` };
      return statusAt(places.gateway, { path: '/hello', headers }, 401);
    },
  },
  {
    name: "shop's sidecar carries calls to hello",
    run: async ({ places }) =>
      expectReply(await reply(places.shopOutbound, { path: '/hello', host: 'hello' }), { app: 'hello-v1' }),
  },
  {
    name: "… by the sidecars' own routes",
    run: async ({ places }) => {
      const answer = await reply(places.shopOutbound, { path: '/new/items', host: 'hello.demo.svc.cluster.local' });
      return expectReply(answer, { app: 'hello-v2', path: '/items', calledBy: 'shop' });
    },
  },
  {
    name: '… and calls to the outside',
    run: async ({ places }) =>
      expectReply(await reply(places.shopOutbound, { path: '/', host: 'clock.example.com' }), { app: 'clock' }),
  },
  {
    name: '… but none that its Sidecar does not allow',
    run: ({ places }) => statusAt(places.shopOutbound, { path: '/', host: 'shop.demo.svc.cluster.local' }, 502),
  },
  {
    name: 'the gateway calls a workload with sidecar over mutual TLS, and shows who it is',
    run: async (mesh) => expectIdentities(await replyOf(mesh, 'hello-v1'), 'hello', 'gateway'),
  },
  {
    name: '… and a workload without sidecar in plain text',
    run: async (mesh) => expectPlain(await replyOf(mesh, 'hello-v2')),
  },
  {
    name: 'a sidecar shows its own identity',
    run: async ({ places }) =>
      expectIdentities(await reply(places.shopOutbound, { path: '/hello', host: 'hello' }), 'hello', 'shop'),
  },
  {
    name: 'a redirected application calls stock.demo knowing nothing of the mesh, and arrives with its identity',
    run: redirectedCheck(async ({ orders, urls }) =>
      expectIdentities(await callIn(orders.netns, urls.stock), 'stock', 'orders'),
    ),
  },
  { name: '… and so does the application it calls when that calls on', run: redirectedCheck(ordersCallStock) },
  {
    name: '… and callers without a proxy are taken in plain text',
    run: redirectedCheck(async ({ outside, stock }) =>
      expectPlain(await callIn(outside, `http://${stock.netns.address}:8080/`)),
    ),
  },
  {
    name: 'a plain call at a sidecar is taken while PeerAuthentication is PERMISSIVE',
    run: async ({ places }) => expectPlain(await reply(places.helloSidecar, PLAIN)),
  },
  { name: '… and refused as soon as it is STRICT', run: strict },
  {
    name: '… and taken again when it is PERMISSIVE again',
    run: (mesh) => {
      const edit = { file: 'peer-authentication.yaml', from: 'mode: STRICT', to: 'mode: PERMISSIVE' };
      return afterEdit(mesh, edit, () => reply(mesh.places.helloSidecar, PLAIN));
    },
  },
  {
    name: 'an edit of the weights moves all traffic to v2',
    run: async (mesh) => {
      const file = 'gateway-routes.yaml';
      await editFile(join(mesh.configDir, file), 'weight: 20', 'weight: 100');
      return afterEdit(mesh, { file, from: 'weight: 80', to: 'weight: 0' }, () => onlyV2(mesh));
    },
  },
  {
    name: 'a bad document is listed with its field, and what was good stays in force',
    run: async (mesh) => {
      const edit = { file: 'gateway-routes.yaml', from: 'weight: 0', to: 'weight: none' };
      const when = await afterEdit(mesh, edit, () => problems(mesh, /^gateway-routes\.yaml:\d+: .*weight/));
      await onlyV2(mesh);
      return `listed ${when}`;
    },
  },
  {
    name: 'the repaired document takes over',
    run: async (mesh) => {
      const edit = { file: 'gateway-routes.yaml', from: 'weight: none', to: 'weight: 0' };
      return afterEdit(mesh, edit, () => problems(mesh, undefined));
    },
  },
  {
    name: 'a version without workloads is unavailable',
    run: (mesh) =>
      afterEdit(mesh, { file: 'hello.yaml', from: 'version: v2', to: 'version: v3' }, () =>
        statusAt(mesh.places.gateway, V2_BY_HEADER, 503),
      ),
  },
  {
    name: 'a workload that takes the version on serves it',
    run: (mesh) =>
      afterEdit(mesh, { file: 'hello.yaml', from: 'version: v3', to: 'version: v2' }, () =>
        reply(mesh.places.gateway, V2_BY_HEADER),
      ),
  },
];
