/**
 * The debug interface: read-only JSON pages under `/debug`. A page is built on request from the state of the program,
 * in slices (`page-maker.ts`), and contains only what the viewer may see (`viewed.ts`).
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { CtlError } from '../core/errors.ts';
import { goneSignal } from '../http/index.ts';
import type { ConnectionStatus } from '../push/index.ts';
import type { ResourceKey } from '../resources/index.ts';
import type { DebugAnswer, DebugQuestion } from '../xds/index.ts';
import { analysisz } from './analysisz.ts';
import { configz } from './configz.ts';
import { DIFF_PAGE, diffz } from './diffz.ts';
import { onDemandOf } from './held.ts';
import { pagePieces, Stepwise } from './json-pieces.ts';
import { endpointShardz, endpointz, instancesz, pushStatus, registryz, resourcesz } from './mesh.ts';
import { authenticationOf, clusterz, injectPage, meshPage, networkz } from './mesh-settings.ts';
import { numberOf } from './numbers.ts';
import { overXds } from './over-xds.ts';
import { overview, proxyPage } from './overview.ts';
import { connectionsFor, type DebugCall, type Page } from './page.ts';
import type { BuiltPage, PageClient } from './page-maker.ts';
import {
  adsz,
  clustersByEndpoints,
  configDump,
  decoded,
  lazyList,
  nameTables,
  resourcesOf,
  syncStatus,
} from './proxies.ts';
import { proxyz } from './proxyz.ts';
import { Viewed } from './viewed.ts';
import { whyz } from './whyz/index.ts';
import { withheldz } from './withheld.ts';

export type { DebugCall } from './page.ts';
export { PageMaker } from './page-maker.ts';
export { ProxyTable } from './proxy-table.ts';
export type { HeldShown, ProxyConfiguration } from './shapes.ts';
export type { CertificateStatus, DebugSource, LeaderStatus, Recent, SourceStatus } from './types.ts';
export type { Viewer } from './viewed.ts';

/** The largest number of proxies whose resources one page shows: decoding them takes CPU time from pushes. */
const MAX_PRINTED = 32;

/** A page with one entry for each proxy. In a large mesh `proxyID` is required. */
function perProxy(shown: (mesh: Viewed, connection: ConnectionStatus) => object): Page['answer'] {
  return (mesh, query) => {
    const connections = connectionsFor(mesh, query);
    if (connections.length === 0 && query.has('proxyID')) return undefined;
    if (connections.length > MAX_PRINTED) return undefined;
    return lazyList(connections, (connection) => ({
      proxy: connection.node.workload,
      id: connection.node.id,
      ...shown(mesh, connection),
    }));
  };
}

const clustersOf = perProxy((mesh, connection) => ({
  clusters: lazyList(resourcesOf(mesh, connection, 'cds'), (resource) => decoded('cds', resource)),
}));

/**
 * `clusters` maps names of endpoints to names of clusters, for proxies where these differ.
 */
const endpointsOf = perProxy((mesh, connection) => {
  const clusters = clustersByEndpoints(mesh, connection);
  return {
    endpoints: lazyList(resourcesOf(mesh, connection, 'eds'), (resource) => decoded('eds', resource)),
    ...(Object.keys(clusters).length > 0 && { clusters }),
  };
});

const namesOf = perProxy((mesh, connection) => ({ names: nameTables(mesh, connection) }));

const PAGES: Readonly<Record<string, Page>> = {
  authenticationz: {
    title: 'Mutual TLS modes and policies of the workload of each proxy (?proxyID=)',
    answer: perProxy(authenticationOf),
  },
  adsz: {
    title: 'Connected proxies and their subscriptions (?proxyID=)',
    answer: (mesh, query) => adsz(mesh, connectionsFor(mesh, query)),
  },
  clusterz: { title: 'Clusters that are read', answer: clusterz },
  analysisz: {
    title: 'Probable mistakes in the configuration in force, by code (?namespace=, &kind=, &code=)',
    answer: analysisz,
  },
  cdsz: { title: 'Clusters of each proxy (?proxyID=)', answer: clustersOf },
  config_dump: {
    title:
      "Configuration of one proxy in the form of Envoy's config_dump (?proxyID=pod.namespace); &askable=true: what a " +
      'sidecar on demand has not asked for',
    answer: (mesh, query) => {
      const [connection] = query.get('proxyID') ? connectionsFor(mesh, query) : [];
      return connection && configDump(mesh, connection, query.get('askable') === 'true');
    },
  },
  config_distribution: {
    title: 'Which proxies have a resource in which version (?resource=Kind/namespace/name)',
    needs: ['resource'],
    answer: (mesh, query) => {
      const resource = query.get('resource') ?? '';
      return resource === '' ? undefined : mesh.distribution(resource);
    },
  },
  configz: {
    title: 'Configuration in force, and refused documents (?kind=, &namespace=, &search=, &start=, &limit=)',
    answer: configz,
  },
  eventsz: {
    title: 'The last log lines, the newest first (?since=, the number of the last one that is known)',
    answer: (mesh, query) => ({ events: mesh.recent()?.events(numberOf(query, 'since', 0)) ?? [] }),
  },
  edsz: { title: 'Endpoints of each proxy (?proxyID=)', answer: endpointsOf },
  endpointShardz: {
    title: 'Endpoints by host name and namespace',
    answer: (mesh) => endpointShardz(mesh),
  },
  endpointz: { title: 'Endpoints by service and port', answer: (mesh) => endpointz(mesh) },
  inject: { title: 'Configuration and values of injection that the user has written', answer: injectPage },
  instancesz: { title: 'Services that each proxy serves', answer: (mesh) => instancesz(mesh) },
  leaderz: {
    title: 'Tasks that one replica does for all, and the replica that leads each; empty without a cluster',
    answer: (mesh) => mesh.leadership(),
  },
  list: { title: 'Names of the debug pages', answer: () => Object.keys(PAGES) },
  mesh: { title: 'Mesh configuration in force', answer: meshPage },
  networkz: { title: 'Gateways of networks', answer: networkz },
  ndsz: { title: 'Name table of each proxy whose agent answers DNS (?proxyID=)', answer: namesOf },
  overviewz: {
    title: 'Proxies by state, problems by kind, and the state of the program',
    answer: (mesh) => new Stepwise(overview(mesh, Date.now())),
  },
  proxiesz: {
    title: 'State of each proxy, 100 at a time (?search=, &state=SYNCED|STALE|REJECTED|NOT SENT, &start=, &limit=)',
    answer: (mesh, query) => new Stepwise(proxyPage(mesh, query)),
  },
  proxyz: {
    title:
      'What one proxy should have (?proxyID=): counts, a list (&type=lds, &search=, &start=, &limit=), one resource ' +
      'and what it was generated from (&type=, &name=), what a sidecar on demand has not asked for (&type=, ' +
      '&askable=true), or what differs from another proxy (&type=, &versus=) or ' +
      'from what it should have had some minutes ago (&type=, &at=)',
    answer: (mesh, query) => {
      const [connection] = query.get('proxyID') ? connectionsFor(mesh, query) : [];
      const versus = query.get('versus');
      const [other] = versus ? connectionsFor(mesh, new URLSearchParams({ proxyID: versus })) : [];
      if (connection === undefined || (versus && other === undefined)) return undefined;
      return proxyz(mesh, connection, query, other);
    },
  },
  push_status: {
    title: 'Conflicts, refused policies, state of the push engine',
    answer: (mesh) => pushStatus(mesh),
  },
  pushz: {
    title: 'The last published changes: what changed, why, how many proxies needed it, and how long each stage took',
    answer: (mesh) => ({ pushes: mesh.recent()?.pushes() ?? [] }),
  },
  registryz: { title: 'Services', answer: (mesh) => registryz(mesh) },
  resourcesz: { title: 'Number of resources of each kind', answer: (mesh) => resourcesz(mesh) },
  seriesz: {
    title: 'The last 30 minutes in intervals of 10 s: pushes, convergence, proxies, memory',
    answer: (mesh) => mesh.recent()?.series() ?? {},
  },
  syncz: {
    title: 'What each proxy was sent and acknowledged (?proxyID=)',
    answer: (mesh, query) => lazyList(connectionsFor(mesh, query), (connection) => syncStatus(mesh, connection)),
  },
  whyz: {
    title: 'The way of a request, with the documents behind it (?source=pod.namespace&destination=host:port/path)',
    needs: ['source and destination'],
    answer: whyz,
  },
  why: {
    title:
      'Documents that a resource of a proxy was generated from (?proxyID=&resource=), or proxies that a document ' +
      'affects (?config=Kind/namespace/name)',
    needs: ['resource', 'config'],
    answer: (mesh, query) => {
      const [config, resource] = [query.get('config') ?? '', query.get('resource') ?? ''];
      if (config !== '') return whyDocument(mesh, config);
      const connections = query.get('proxyID') ? connectionsFor(mesh, query) : [];
      return resource === '' || connections.length > MAX_PRINTED ? undefined : whyResource(mesh, connections, resource);
    },
  },
  withheldz: {
    title: 'Resources that Envoy rejected and that the other proxies of a view do not get',
    answer: withheldz,
  },
};

/** Name and title of every page, for the reference documents. */
export const DEBUG_PAGES: readonly { readonly name: string; readonly title: string }[] = [
  ...Object.entries(PAGES).map(([name, { title }]) => ({ name, title })),
  DIFF_PAGE,
];

/** Answers a request for a page over xDS. Rejects with CtlError. */
export function answerOverXds(question: DebugQuestion, call: DebugCall): Promise<DebugAnswer> {
  return overXds(question, call, PAGES);
}

/** A connection that takes no data for this time, ms, is closed, because its page occupies memory. */
const SEND_TIMEOUT_MS = 30_000;

/** Seconds after which a refused client may try again. */
const RETRY_AFTER_S = '5';

function send(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, { 'content-type': `${type}; charset=utf-8`, 'x-content-type-options': 'nosniff' });
  response.end(body);
}

function indexPage(): string {
  const rows = DEBUG_PAGES.map(({ name, title }) => {
    const path = `/debug/${name}`;
    return `<li>${name === DIFF_PAGE.name ? path : `<a href="${path}">${path}</a>`} ${title}</li>`;
  });
  const head = '<meta charset="utf-8"><title>ctl-discovery: debug</title>';
  return `<!doctype html>${head}<h1>ctl-discovery</h1><ul>${rows.join('')}</ul>\n`;
}

/** Whether a path belongs to the debug interface. */
export function isDebugPath(path: string): boolean {
  return path === '/debug' || path.startsWith('/debug/');
}

/**
 * Whether a page needs a caller who has proved who it is, even where the other pages are open to everyone: the log of
 * the program, and comparisons, which take its time.
 */
export function needsProof(request: IncomingMessage): boolean {
  const name = nameOf(urlOf(request));
  return name === DIFF_PAGE.name || name === 'eventsz';
}

function urlOf(request: IncomingMessage): URL {
  return new URL(request.url ?? '/', 'http://localhost');
}

/** The name of a page; '' for other paths. */
function nameOf({ pathname }: URL): string {
  const [, name = ''] = /^\/debug\/([A-Za-z_]*)$/.exec(pathname) ?? [];
  return name;
}

/** Answers a request below `/debug`. Rejects when a page cannot be built. */
export async function handleDebug(call: DebugCall, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = urlOf(request);
  const name = nameOf(url);
  const page = Object.hasOwn(PAGES, name) ? PAGES[name] : undefined;
  if (name === DIFF_PAGE.name) await answerDiff(call, request, response);
  else if (request.method !== 'GET' && request.method !== 'HEAD') {
    send(response, 405, 'text/plain', 'only GET is supported\n');
  } else if (url.pathname === '/debug' || url.pathname === '/debug/') {
    send(response, 200, 'text/html', indexPage());
  } else if (page === undefined) {
    send(response, 404, 'text/plain', `no page ${url.pathname}, see /debug\n`);
  } else {
    await answerPage(page, call, url.searchParams, request, response);
  }
}

async function answerPage(
  page: Page,
  { source, viewer, maker }: DebugCall,
  query: URLSearchParams,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const pieces = () => {
    const answer = page.answer(new Viewed(source, viewer), query);
    return answer === undefined ? undefined : pagePieces(answer);
  };
  await answering(request, response, async (client) => {
    const made = await maker.make(pieces, client);
    if (made === undefined) sendNothing(page, query, response);
    else sendPage(made, response);
  });
}

async function answerDiff(
  { source, viewer, maker }: DebugCall,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (request.method !== 'POST') return send(response, 405, 'text/plain', 'only POST is supported\n');
  await answering(request, response, async (client) => {
    const answer = await diffz(source, viewer, request, client.closed);
    const made = await maker.make(() => pagePieces(answer), client);
    if (made !== undefined) sendPage(made, response);
  });
}

/** Sends a page, or why it cannot be built. */
async function answering(
  request: IncomingMessage,
  response: ServerResponse,
  answer: (client: PageClient) => Promise<void>,
): Promise<void> {
  const closed = goneSignal(response);
  try {
    await answer({ address: request.socket.remoteAddress ?? '', closed });
  } catch (error) {
    if (!(error instanceof CtlError)) throw error;
    if (error.code === 'unavailable') response.setHeader('retry-after', RETRY_AFTER_S);
    // The rest of a body that is too large is not read.
    if (!request.complete) response.setHeader('connection', 'close');
    if (!closed.aborted) send(response, statusOf(error), 'text/plain', `${error.oneLine()}\n`);
  }
}

function statusOf({ code }: CtlError): number {
  switch (code) {
    case 'invalid_argument':
      return 400;
    case 'permission_denied':
      return 403;
    case 'failed_precondition':
      return 409;
    case 'resource_exhausted':
      return 413;
    default:
      return 503;
  }
}

function sendNothing({ needs = ['proxyID'] }: Page, query: URLSearchParams, response: ServerResponse): void {
  const given = needs.find((name) => query.get(name));
  if (given === undefined) send(response, 400, 'text/plain', `${needs.join(' or ')} is missing\n`);
  else send(response, 404, 'text/plain', `unknown ${given} ${query.get(given)}\n`);
}

function sendPage({ chunks, bytes, release }: BuiltPage, response: ServerResponse): void {
  if (response.destroyed) {
    release();
    return;
  }
  response.once('close', release);
  response.setTimeout(SEND_TIMEOUT_MS, () => response.destroy());
  response.writeHead(200, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': bytes,
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store',
  });
  for (const chunk of chunks) response.write(chunk);
  response.end();
}

/**
 * The inputs of a resource for each proxy: the units of the resource, with the facts that they read. Undefined when no
 * proxy has it.
 */
function whyResource(mesh: Viewed, connections: readonly ConnectionStatus[], name: string): unknown {
  const found = connections.flatMap((connection) => {
    const units = mesh.reasonsFor(connection, name).map(({ documents, ...reason }) => {
      const onDemand = onDemandOf(mesh, connection, reason.type, name);
      return { ...reason, documents: documents.map((key) => document(mesh, key)), ...onDemand };
    });
    return units.length === 0 ? [] : [{ proxy: connection.node.workload, units }];
  });
  return found.length === 0 ? undefined : found;
}

function document(mesh: Viewed, key: ResourceKey): object {
  const [inForce] = mesh.documents(key);
  return { key, ...(inForce !== undefined && { origin: inForce.resource.origin }) };
}

/** The proxies whose configuration read a document. Undefined when the document is not visible. */
function whyDocument(mesh: Viewed, key: ResourceKey): unknown {
  const readers = mesh.readersOf(key);
  return readers && [...readers].map(([{ node }, units]) => ({ proxy: node.workload, units }));
}
