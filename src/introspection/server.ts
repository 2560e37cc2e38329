/**
 * The introspection facility (`--introspect_address`, `--introspect_port`): pages for operators, and what they show as
 * JSON. Debug pages under `/debug`, what tools read of the process under `/<topic>j`, log levels under `/scopej`,
 * Prometheus text under `/metrics`.
 *
 * By default it listens on localhost. Who may see what is decided as for debug pages on the other addresses: programs
 * of this machine see everything, others need a token. A web page in a browser on the same machine must not reach it,
 * so requests from loopback must name a loopback host (against DNS rebinding), and changes must come from a page of
 * this server or from a program.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { CtlError, messageOf } from '../core/errors.ts';
import { INTERNAL_FETCH_HEADER } from '../core/network/internal-fetch.ts';
import { listen } from '../core/network/listen.ts';
import { hostOf, isLoopbackAddress, isLoopbackName } from '../core/network/loopback.ts';
import { isDebugPath } from '../debug/index.ts';
import { closeServer, createBoundedServer } from '../http/index.ts';
import { getScope, type ProgramName } from '../logging/index.ts';
import { Assets } from './assets.ts';
import { refuse, sendJson, sendText } from './http.ts';
import { answerScopes } from './scopes.ts';
import { type ProcessTopics, topicAction, topicJson } from './topics.ts';

export interface IntrospectionAccess {
  /** Rejects with a CtlError unless the caller may see, and change, the program itself. */
  allOrRefuse(request: IncomingMessage, what: string): Promise<void>;
}

export interface IntrospectionOptions extends ProcessTopics {
  readonly program: ProgramName;
  /** Host name or IP address; `*` means all addresses. */
  readonly address: string;
  /** 0: any free port. */
  readonly port: number;
  readonly access: IntrospectionAccess;
  /** Answers a request below `/debug`, for callers who may see it. */
  readonly debug: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  /** The folder of the page application, with a slash at its end. */
  readonly pages: URL;
  /** The Prometheus text and its content type. */
  readonly metrics: () => Promise<{ readonly contentType: string; readonly text: string }>;
}

export interface IntrospectionServer {
  /** The port listened on. */
  readonly port: number;
  close(): Promise<void>;
}

const FLAG = '--introspect_port';

/** Starts the server. Rejects with CtlError `unavailable` that names the flag and the address. */
export async function startIntrospection(options: IntrospectionOptions): Promise<IntrospectionServer> {
  const warn = (line: string): void => getScope('default').warn(line);
  const server = createBoundedServer({ name: FLAG, warn }, introspectionListener(options));
  const host = options.address === '*' ? undefined : options.address;
  const port = await listen(server, FLAG, { host, port: options.port }, warn);
  return {
    port,
    close: () => closeServer(server),
  };
}

/** Answers the requests of the address. */
export function introspectionListener(options: IntrospectionOptions): RequestListener {
  const assets = new Assets(options.pages);
  return (request, response) => {
    answer(options, assets, request, response).catch((error: unknown) => {
      if (response.headersSent) response.destroy();
      else if (error instanceof CtlError && error.code !== 'internal') refuse(response, error);
      else sendText(response, 500, messageOf(error));
    });
  };
}

async function answer(
  options: IntrospectionOptions,
  assets: Assets,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  // The author of a policy chooses the URL of a key set.
  if (request.headers[INTERNAL_FETCH_HEADER] !== undefined) {
    return sendText(response, 403, 'key sets cannot be fetched from this address');
  }
  // A server on all addresses is reached through loopback by a browser on this machine.
  const local = isLoopbackName(options.address) || isLoopbackAddress(request.socket.remoteAddress);
  if (local && request.headers.authorization === undefined && !isLoopbackName(hostOf(request.headers))) {
    return sendText(response, 403, 'this address answers requests for localhost only');
  }
  const path = URL.parse(request.url ?? '/', 'http://localhost')?.pathname.replace(/(?<=.)\/+$/, '');
  if (path === undefined) return sendText(response, 400, 'the request target is not a URL');
  if (isDebugPath(path)) return options.debug(request, response);
  const mayChange = async (): Promise<void> => {
    refuseOtherSites(request);
    await options.access.allOrRefuse(request, 'changes');
  };
  if (path === '/scopej' || path.startsWith('/scopej/')) {
    await options.access.allOrRefuse(request, 'log scopes');
    return answerScopes(options.program, path.slice('/scopej/'.length), request, response, mayChange);
  }
  const action = topicAction(path);
  if (action !== undefined) return act(action, mayChange, request, response);
  if (request.method !== 'GET' && request.method !== 'HEAD') return sendText(response, 405, 'only GET is supported');
  if (await assets.answer(path, request, response)) return;
  if (path === '/metrics') {
    const { contentType, text } = await options.metrics();
    response.writeHead(200, { 'content-type': contentType });
    response.end(text);
    return;
  }
  await answerTopic(options, path, request, response);
}

async function answerTopic(
  options: IntrospectionOptions,
  path: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const topic = topicJson(path.slice(1), options);
  if (topic === undefined) return sendText(response, 404, `no page ${path}, see /`);
  // Which build this is, other addresses tell everyone.
  if (path !== '/versionj') await options.access.allOrRefuse(request, path);
  sendJson(response, 200, topic);
}

async function act(
  action: () => void,
  mayChange: () => Promise<void>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (request.method !== 'PUT' && request.method !== 'POST') {
    return sendText(response, 405, 'only PUT and POST are supported');
  }
  await mayChange();
  action();
  sendJson(response, 202, { accepted: true });
}

/** A browser says which page made a request. Programs send neither header. */
function refuseOtherSites({ headers }: IncomingMessage): void {
  const { origin, host } = headers;
  const site = headers['sec-fetch-site'] ?? 'same-origin';
  const same = origin === undefined || URL.parse(origin)?.host === host;
  if (same && (site === 'same-origin' || site === 'none')) return;
  throw new CtlError('permission_denied', 'changes are accepted from pages of this server only');
}
