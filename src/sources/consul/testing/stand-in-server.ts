/**
 * A stand-in for Consul's HTTP API on a socket, for tests with real processes and for benches. It can be adversarial:
 * see {@link ServerFault}.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { type StandInInstance, StandInRegistry } from './stand-in-registry.ts';

/** What every request gets instead of the right answer. */
export type ServerFault =
  | 'error 500'
  | 'error 429'
  | 'half'
  | 'empty'
  | 'garbage'
  | 'huge'
  | 'no leader'
  | 'lower index'
  | 'silent'
  | 'redirect';

export interface StandInServer {
  readonly url: string;
  readonly port: number;
  /** Requests by kind of path (`/v1/health/service/NAME`, …), and the most in progress at once. */
  readonly requests: ReadonlyMap<string, number>;
  readonly mostAtOnce: number;
  /** Values of X-Consul-Token that were sent. */
  readonly tokens: ReadonlySet<string>;
  /** The fault of all requests from now on; those that wait get an answer at once. */
  fail(fault: ServerFault | undefined): void;
  /** Delays each answer, ms. */
  slow(ms: number): void;
  /** Closes all connections and the port, as a process that was killed. */
  stop(): Promise<void>;
}

/** The path by which tests in another process change the stand-in, with a {@link Command}. */
export const CONTROL = '/stand-in';

/** What a test in another process wants; the response is {@link Counts}. */
export type Command =
  | { readonly do: 'count' }
  | { readonly do: 'register'; readonly instances: readonly StandInInstance[] }
  | { readonly do: 'deregister'; readonly node: string; readonly id: string }
  | { readonly do: 'status'; readonly node: string; readonly id: string; readonly status: string }
  | { readonly do: 'fail'; readonly fault?: ServerFault }
  | { readonly do: 'slow'; readonly ms: number };

export interface Counts {
  readonly requests: Readonly<Record<string, number>>;
  readonly mostAtOnce: number;
  readonly tokens: readonly string[];
}

interface State {
  fault: ServerFault | undefined;
  slowMs: number;
  open: number;
  most: number;
  readonly waiting: Set<() => void>;
  readonly requests: Map<string, number>;
  readonly tokens: Set<string>;
}

/** Serves the registry on a loopback port. @param port 0: a free one */
export async function serveStandIn(registry: StandInRegistry, port = 0): Promise<StandInServer> {
  const state: State = {
    fault: undefined,
    slowMs: 0,
    open: 0,
    most: 0,
    waiting: new Set(),
    requests: new Map(),
    tokens: new Set(),
  };
  const sockets = new Set<Socket>();
  const server = createServer((request, response) => void respond(registry, state, request, response));
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  const address = await listening(server, port);
  return {
    url: `http://127.0.0.1:${address.port}`,
    port: address.port,
    requests: state.requests,
    get mostAtOnce() {
      return state.most;
    },
    tokens: state.tokens,
    fail(fault) {
      state.fault = fault;
      for (const wake of [...state.waiting]) wake();
    },
    slow(ms) {
      state.slowMs = ms;
    },
    async stop() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      for (const wake of [...state.waiting]) wake();
      await closed;
    },
  };
}

function listening(server: Server, port: number): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => resolve(server.address() as AddressInfo));
  });
}

async function respond(
  registry: StandInRegistry,
  state: State,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://stand-in');
  if (url.pathname === CONTROL) return await control(registry, state, request, response);
  const kind = url.pathname.startsWith('/v1/health/service/') ? '/v1/health/service/NAME' : url.pathname;
  state.requests.set(kind, (state.requests.get(kind) ?? 0) + 1);
  const token = request.headers['x-consul-token'];
  if (typeof token === 'string') state.tokens.add(token);
  state.open++;
  state.most = Math.max(state.most, state.open);
  response.on('close', () => state.open--);
  if (state.fault === undefined) await changeOf(registry, state, url, request);
  if (state.slowMs > 0) await new Promise((resolve) => setTimeout(resolve, state.slowMs).unref());
  if (!response.destroyed) write(registry, state.fault, url, response);
}

async function control(
  registry: StandInRegistry,
  state: State,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  obey(registry, state, JSON.parse(Buffer.concat(chunks).toString('utf8')) as Command);
  const { requests, most: mostAtOnce, tokens } = state;
  const counts: Counts = { requests: Object.fromEntries(requests), mostAtOnce, tokens: [...tokens] };
  response.end(JSON.stringify(counts));
}

function obey(registry: StandInRegistry, state: State, command: Command): void {
  switch (command.do) {
    case 'register':
      registry.register(...command.instances);
      break;
    case 'deregister':
      registry.deregister(command.node, command.id);
      break;
    case 'status':
      registry.setStatus(command.node, command.id, command.status);
      break;
    case 'fail':
      state.fault = command.fault;
      for (const wake of [...state.waiting]) wake();
      break;
    case 'slow':
      state.slowMs = command.ms;
      break;
    case 'count':
      break;
  }
}

/** Resolves when the answer differs from what the query knows, when its wait is over, or when the client has gone. */
async function changeOf(registry: StandInRegistry, state: State, url: URL, request: IncomingMessage): Promise<void> {
  const index = Number(url.searchParams.get('index') ?? 0);
  if (index === 0 || (registry.answer(url.pathname)?.index ?? 0) !== index) return;
  const topic = StandInRegistry.topicOf(url.pathname);
  await new Promise<void>((resolve) => {
    const stop = registry.onChange((topics) => topics.has(topic) && done());
    const timer = setTimeout(() => done(), Number.parseInt(url.searchParams.get('wait') ?? '300000', 10)).unref();
    const done = (): void => {
      stop();
      clearTimeout(timer);
      state.waiting.delete(done);
      resolve();
    };
    state.waiting.add(done);
    request.socket.once('close', done);
  });
}

interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | number>>;
  readonly body: string | Buffer;
}

function write(registry: StandInRegistry, fault: ServerFault | undefined, url: URL, response: ServerResponse): void {
  if (fault === 'silent') return;
  const { status, headers, body } = answerTo(registry, fault, url.pathname);
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(body);
}

function answerTo(registry: StandInRegistry, fault: ServerFault | undefined, path: string): Answered {
  if (fault === 'error 500') return { status: 500, headers: {}, body: 'No cluster leader' };
  if (fault === 'error 429') return { status: 429, headers: {}, body: 'too many requests' };
  if (fault === 'redirect') return { status: 302, headers: { location: 'http://127.0.0.1:1/' }, body: '' };
  const answer = registry.answer(path);
  if (answer === undefined) return { status: 404, headers: {}, body: '' };
  const headers = {
    'x-consul-index': fault === 'lower index' ? 1 : answer.index,
    'x-consul-knownleader': String(fault !== 'no leader'),
    'x-consul-lastcontact': 0,
  };
  return { status: 200, headers, body: bodyWith(fault, answer.body) };
}

function bodyWith(fault: ServerFault | undefined, body: string): string | Buffer {
  if (fault === 'half') return body.slice(0, body.length / 2);
  if (fault === 'empty') return body.startsWith('[') ? '[]' : '{"consul":[]}';
  if (fault === 'garbage') return '<html>it works</html>';
  return fault === 'huge' ? Buffer.alloc(80 * 1024 * 1024, 0x20) : body;
}
