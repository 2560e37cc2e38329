/**
 * The introspection facility (`--introspect_address`, `--introspect_port`): a small HTTP server for operators. It shows
 * process, memory, build, variables and metrics, and changes log levels at run time. JSON under `/scopej/`, `/envj/`,
 * `/procj/`, `/memj/`, `/versionj/`, Prometheus text under `/metrics`, a page at `/`.
 *
 * By default it listens on localhost, and it asks for no credential. A web page in a browser on the same machine must
 * not reach it. So requests from loopback must name a loopback host (against DNS rebinding), and changes need a JSON
 * body (which a cross-site form cannot send).
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { hostname } from 'node:os';
import { getHeapStatistics } from 'node:v8';
import type { BuildInfo } from '../core/build-info.ts';
import { messageOf } from '../core/errors.ts';
import { readUpTo } from '../core/network/body.ts';
import { listen } from '../core/network/listen.ts';
import { hostOf, isLoopbackAddress, isLoopbackName } from '../core/network/loopback.ts';
import { closeServer, createBoundedServer } from '../http/index.ts';
import {
  getScope,
  isLogLevel,
  LOG_LEVELS,
  loggingScopes,
  type ProgramName,
  type ScopeName,
  type ScopeSettings,
  scopeSettings,
  setCaller,
  setLevel,
  setStackLevel,
} from '../logging/index.ts';
import { introspectionPage } from './introspection-page.ts';

export interface IntrospectionOptions {
  readonly program: ProgramName;
  /** Host name or IP address; `*` means all addresses. */
  readonly address: string;
  /** 0: any free port. */
  readonly port: number;
  readonly build: BuildInfo;
  /** The variables under `/envj/`: those of the program's tables. The whole environment may contain secrets. */
  readonly environment: Readonly<Record<string, string>>;
  /** The Prometheus text and its content type. */
  readonly metrics: () => Promise<{ readonly contentType: string; readonly text: string }>;
}

export interface IntrospectionServer {
  /** The port listened on. */
  readonly port: number;
  close(): Promise<void>;
}

const FLAG = '--introspect_port';

/** A change of a scope has some dozens of bytes. */
const MAX_BODY_BYTES = 4096;

/** Starts the server. Rejects with CtlError `unavailable` that names the flag and the address. */
export async function startIntrospection(options: IntrospectionOptions): Promise<IntrospectionServer> {
  const warn = (line: string): void => getScope('default').warn(line);
  const server = createBoundedServer({ name: FLAG, warn }, (request, response) => {
    answer(options, request, response).catch((error: unknown) => {
      if (response.headersSent) response.destroy();
      else sendText(response, 500, messageOf(error));
    });
  });
  const host = options.address === '*' ? undefined : options.address;
  const port = await listen(server, FLAG, { host, port: options.port }, warn);
  return {
    port,
    close: () => closeServer(server),
  };
}

async function answer(options: IntrospectionOptions, request: IncomingMessage, response: ServerResponse) {
  // A server on all addresses is reached through loopback by a browser on this machine.
  const local = isLoopbackName(options.address) || isLoopbackAddress(request.socket.remoteAddress);
  if (local && !isLoopbackName(hostOf(request.headers))) {
    return sendText(response, 403, 'this address answers requests for localhost only');
  }
  const path = new URL(request.url ?? '/', 'http://localhost').pathname.replace(/(?<=.)\/+$/, '');
  if (path === '/scopej' || path.startsWith('/scopej/')) {
    return answerScopes(options.program, path.slice('/scopej/'.length), request, response);
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') return sendText(response, 405, 'only GET is supported');
  switch (path) {
    case '/':
      response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
      response.end(introspectionPage(options.program));
      return;
    case '/envj':
      return sendJson(
        response,
        200,
        Object.entries(options.environment).map(([name, value]) => ({ name, value })),
      );
    case '/procj':
      return sendJson(response, 200, processFacts());
    case '/memj':
      return sendJson(response, 200, { ...process.memoryUsage(), heap: getHeapStatistics() });
    case '/versionj':
      return sendJson(response, 200, options.build);
    case '/metrics': {
      const { contentType, text } = await options.metrics();
      response.writeHead(200, { 'content-type': contentType });
      response.end(text);
      return;
    }
    default:
      return sendText(response, 404, `no page ${path}, see /`);
  }
}

async function answerScopes(
  program: ProgramName,
  name: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const known = loggingScopes(program);
  if (name === '') {
    if (request.method !== 'GET') return sendText(response, 405, 'to change a scope, name it: /scopej/<scope>');
    return sendJson(
      response,
      200,
      known.map((scope) => shownScope(scopeSettings(scope))),
    );
  }
  const scope = known.find((candidate) => candidate === name);
  if (scope === undefined) return sendText(response, 404, `unknown log scope ${JSON.stringify(name)}`);
  if (request.method === 'PUT') {
    if (!/^application\/json\b/.test(request.headers['content-type'] ?? '')) {
      return sendText(response, 415, 'send the change as application/json');
    }
    const refusal = changeScope(scope, (await readUpTo(MAX_BODY_BYTES, request))?.toString('utf8'));
    if (refusal !== '') return sendText(response, 400, refusal);
  } else if (request.method !== 'GET') {
    return sendText(response, 405, 'only GET and PUT are supported');
  }
  return sendJson(response, 200, shownScope(scopeSettings(scope)));
}

function shownScope(settings: ScopeSettings) {
  return {
    name: settings.name,
    output_level: settings.outputLevel,
    stack_trace_level: settings.stackLevel,
    log_callers: settings.caller,
  };
}

/** Applies a change to a scope, or nothing when a part is invalid. Returns the problem, '' for none. */
function changeScope(scope: ScopeName, body: string | undefined): string {
  let change: unknown;
  try {
    change = JSON.parse(body ?? '');
  } catch {
    return 'the body is not JSON or is too long';
  }
  if (typeof change !== 'object' || change === null) return 'the body is not a JSON object';
  const { output_level, stack_trace_level, log_callers } = change as Record<string, unknown>;
  for (const level of [output_level, stack_trace_level]) {
    if (level !== undefined && !(typeof level === 'string' && isLogLevel(level))) {
      return `unknown log level ${JSON.stringify(level)}, expected ${LOG_LEVELS.join(', ')}`;
    }
  }
  if (log_callers !== undefined && typeof log_callers !== 'boolean') return 'log_callers is not true or false';
  if (typeof output_level === 'string' && isLogLevel(output_level)) setLevel(scope, output_level);
  if (typeof stack_trace_level === 'string' && isLogLevel(stack_trace_level)) setStackLevel(scope, stack_trace_level);
  if (log_callers !== undefined) setCaller(scope, log_callers);
  return '';
}

function processFacts() {
  return {
    pid: process.pid,
    ppid: process.ppid,
    uid: process.getuid?.(),
    gid: process.getgid?.(),
    hostname: hostname(),
    wd: process.cwd(),
    uptimeSeconds: Math.round(process.uptime()),
    cpuMicroseconds: process.cpuUsage(),
    activeResources: process.getActiveResourcesInfo().length,
  };
}

function sendJson(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(`${JSON.stringify(value, null, 2)}\n`);
}

function sendText(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' });
  response.end(`${text}\n`);
}
