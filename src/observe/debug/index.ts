/**
 * The debug interface: JSON pages under `/debug`. Read-only. Everything is made on request from what the program holds anyway.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ConnectionStatus } from '../../push/types.ts';
import { configz, endpointShardz, endpointz, instancesz, pushStatus, registryz, resourcesz } from './mesh.ts';
import { adsz, clustersByEndpoints, configDump, decoded, resourcesOf, syncStatus } from './proxies.ts';
import type { DebugSource } from './types.ts';

export type { DebugSource } from './types.ts';

interface Page {
  readonly title: string;
  /** Query parameter without which there is no answer; `proxyID` when left out. */
  readonly needs?: string;
  /** Undefined: the proxy that is asked for is not connected, or one has to be asked for. */
  readonly answer: (source: DebugSource, query: URLSearchParams) => unknown;
}

/** Connections of the proxy named by `proxyID`: its workload (`pod.namespace`), its node id or its connection id. */
function connectionsFor(source: DebugSource, query: URLSearchParams): readonly ConnectionStatus[] {
  const wanted = query.get('proxyID');
  const all = source.connections();
  if (wanted === null || wanted === '') return all;
  return all.filter(({ node, connectionId }) => [node.workload, node.id, connectionId].includes(wanted));
}

/** More proxies than this are not decoded and printed in one answer: the program would do nothing else meanwhile. */
const MAX_PRINTED = 32;

/** Per proxy, or for the one asked for. In a large mesh one has to be asked for. */
function perProxy(shown: (source: DebugSource, connection: ConnectionStatus) => object): Page['answer'] {
  return (source, query) => {
    const connections = connectionsFor(source, query);
    if (connections.length === 0 && query.has('proxyID')) return undefined;
    if (connections.length > MAX_PRINTED) return undefined;
    return connections.map((connection) => ({ proxy: connection.node.workload, ...shown(source, connection) }));
  };
}

const clustersOf = perProxy((source, connection) => ({
  clusters: resourcesOf(source, connection, 'cds').map((resource) => decoded('cds', resource)),
}));

/** With `clusters` for proxies whose clusters call their endpoints otherwise than themselves: by that name, the cluster's. */
const endpointsOf = perProxy((source, connection) => {
  const clusters = clustersByEndpoints(source, connection);
  return {
    endpoints: resourcesOf(source, connection, 'eds').map((resource) => decoded('eds', resource)),
    ...(Object.keys(clusters).length > 0 && { clusters }),
  };
});

const PAGES: Readonly<Record<string, Page>> = {
  adsz: { title: 'Connected proxies and what they watch', answer: (source) => adsz(source) },
  cdsz: { title: 'Clusters of each proxy (?proxyID=)', answer: clustersOf },
  config_dump: {
    title: 'Configuration of one proxy, as Envoy prints it (?proxyID=pod.namespace)',
    answer: (source, query) => {
      const [connection] = query.get('proxyID') ? connectionsFor(source, query) : [];
      return connection && configDump(source, connection);
    },
  },
  config_distribution: {
    title: 'Which proxies have a resource in which version (?resource=Kind/namespace/name)',
    needs: 'resource',
    answer: (source, query) => source.distribution?.(query.get('resource') ?? ''),
  },
  configz: { title: 'Configuration in force, and documents refused', answer: (source) => configz(source) },
  edsz: { title: 'Endpoints of each proxy (?proxyID=)', answer: endpointsOf },
  endpointShardz: {
    title: 'Endpoints by host name and namespace',
    answer: (source) => endpointShardz(source.snapshot()),
  },
  endpointz: { title: 'Endpoints by service and port', answer: (source) => endpointz(source.snapshot()) },
  instancesz: { title: 'Services that each proxy serves', answer: (source) => instancesz(source) },
  push_status: { title: 'Conflicts found, state of the push engine', answer: (source) => pushStatus(source) },
  registryz: { title: 'Services', answer: (source) => registryz(source.snapshot()) },
  resourcesz: { title: 'Number of resources of each kind', answer: (source) => resourcesz(source.snapshot()) },
  syncz: {
    title: 'What each proxy was sent and acknowledged',
    answer: (source) => source.connections().map((connection) => syncStatus(source, connection)),
  },
};

function send(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, { 'content-type': `${type}; charset=utf-8`, 'x-content-type-options': 'nosniff' });
  response.end(body);
}

function indexPage(): string {
  const rows = Object.entries(PAGES).map(
    ([name, { title }]) => `<li><a href="/debug/${name}">/debug/${name}</a> ${title}</li>`,
  );
  return `<!doctype html><meta charset="utf-8"><title>ctl-discovery: debug</title><h1>ctl-discovery</h1><ul>${rows.join('')}</ul>\n`;
}

/** Answers a request below `/debug`; false when the request is for something else. */
export function handleDebug(source: DebugSource, request: IncomingMessage, response: ServerResponse): boolean {
  const url = new URL(request.url ?? '/', 'http://localhost');
  const match = /^\/debug(?:\/([A-Za-z_]*))?$/.exec(url.pathname);
  if (match === null) return false;
  const name = match[1] ?? '';
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    send(response, 405, 'text/plain', 'only GET is answered here\n');
  } else if (name === '') {
    send(response, 200, 'text/html', indexPage());
  } else {
    answerPage(name, source, url.searchParams, response);
  }
  return true;
}

function answerPage(name: string, source: DebugSource, query: URLSearchParams, response: ServerResponse): void {
  const page = Object.hasOwn(PAGES, name) ? PAGES[name] : undefined;
  const answer = page?.answer(source, query);
  const needs = page?.needs ?? 'proxyID';
  if (page === undefined) send(response, 404, 'text/plain', `no page ${name}, see /debug\n`);
  else if (answer !== undefined) send(response, 200, 'application/json', `${JSON.stringify(answer, undefined, 2)}\n`);
  else if ((query.get(needs) ?? '') === '') send(response, 400, 'text/plain', `${needs} is missing\n`);
  else send(response, 404, 'text/plain', `nothing is known of ${needs} ${query.get(needs)}\n`);
}
