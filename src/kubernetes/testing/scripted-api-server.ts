/**
 * An API server of the tests, over HTTP/2 with TLS: it keeps objects, lists and watches them in JSON, and fails as a
 * test tells it to. What it does beyond that a real API server does better; tests against the real one stand beside
 * these.
 */
import {
  createSecureServer,
  type Http2SecureServer,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import { derOf, ecKey, makeCa, makeLeaf, pemOf } from '../../security/testing/credentials.ts';
import type { ClusterAccess } from '../access.ts';
import type { ResourceType } from '../objects.ts';

export interface Listed {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly [field: string]: unknown };
  readonly [field: string]: unknown;
}

export interface SeenRequest {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

/** The test's own response; undefined: the server answers. */
export type Intercept = (request: SeenRequest, stream: ServerHttp2Stream) => boolean;

interface Event {
  readonly version: number;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: Listed;
}

type Selects = (object: Listed) => boolean;

interface Collection {
  readonly objects: Map<string, Listed>;
  events: Event[];
  /** With the objects that each is about. */
  readonly watchers: Map<ServerHttp2Stream, Selects>;
}

const KEY = ecKey('P-256');

/** Path of the definitions of kinds. */
export const DEFINITIONS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';

export class ScriptedApiServer {
  readonly #server: Http2SecureServer;
  readonly #ca: string;
  readonly #sessions = new Set<ServerHttp2Session>();
  readonly #collections = new Map<string, Collection>();
  /** Kinds that discovery lists, by the path of their collection. */
  readonly #kinds = new Map<string, string>();
  #version = 100;
  /** Versions below are forgotten. */
  #compacted = 0;
  #connections = 0;
  readonly requests: SeenRequest[] = [];
  /** Whether a watch can begin with all objects. */
  streamingLists = true;
  /** How a watch from a version that is forgotten is answered. */
  goneAs: 'status' | 'event' = 'event';
  intercept: Intercept = () => false;

  private constructor(server: Http2SecureServer, ca: string) {
    this.#server = server;
    this.#ca = ca;
    server.on('session', (session) => {
      this.#connections++;
      this.#sessions.add(session);
      session.on('close', () => this.#sessions.delete(session));
      session.on('error', () => {});
    });
    server.on('stream', (stream, headers) => {
      stream.on('error', () => {});
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        const url = new URL(headers[':path'] ?? '/', 'https://server');
        const body = Buffer.concat(chunks).toString();
        const seen = { method: headers[':method'] ?? '', path: url.pathname, query: url.searchParams, headers, body };
        this.requests.push(seen);
        if (!this.intercept(seen, stream)) this.#answer(seen, stream);
      });
    });
  }

  /** @param maxStreams that a connection takes at once */
  static async start({ port = 0, maxStreams = 100 } = {}): Promise<ScriptedApiServer> {
    const times = { notBefore: Date.now() - 60_000, notAfter: Date.now() + 3_600_000 };
    const ca = makeCa({ name: 'api-server-ca', ...times });
    const leaf = makeLeaf({ issuer: ca, keys: KEY, uris: [], dnsNames: ['localhost'], ...times });
    const server = createSecureServer({
      key: KEY.privateKey.export({ format: 'pem', type: 'pkcs8' }),
      cert: pemOf(leaf),
      settings: { maxConcurrentStreams: maxStreams },
    });
    const self = new ScriptedApiServer(server, pemOf(derOf(ca)));
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
    return self;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get ca(): string {
    return this.#ca;
  }

  get url(): string {
    return `https://127.0.0.1:${this.port}`;
  }

  /** Connections since the start. */
  get connections(): number {
    return this.#connections;
  }

  /** A new client certificate, PEM. The server does not check it. */
  clientCertificate(): { readonly cert: string; readonly key: string } {
    const keys = ecKey('P-256');
    const times = { notBefore: Date.now() - 60_000, notAfter: Date.now() + 3_600_000 };
    const leaf = makeLeaf({
      issuer: makeCa({ name: 'clients', ...times }),
      keys,
      uris: [],
      dnsNames: ['me'],
      ...times,
    });
    return { cert: pemOf(leaf), key: keys.privateKey.export({ format: 'pem', type: 'pkcs8' }).toString() };
  }

  /** @param port where the server is reached, if not at its own */
  access({ token, port = this.port }: { readonly token?: string; readonly port?: number } = {}): ClusterAccess {
    return {
      server: new URL(`https://127.0.0.1:${port}`),
      serverName: 'localhost',
      tls: async () => ({ ca: this.#ca }),
      token: async () => token,
    };
  }

  /** A kubeconfig with credentials inside the text. */
  kubeconfig(token = 'secret', { server = this.url }: { readonly server?: string } = {}): string {
    const ca = Buffer.from(this.#ca).toString('base64');
    const cluster = { server, 'tls-server-name': 'localhost', 'certificate-authority-data': ca };
    return JSON.stringify({
      clusters: [{ name: 'c', cluster }],
      users: [{ name: 'u', user: { token } }],
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'c',
    });
  }

  /**
   * Defines a kind: its collection exists, discovery and the definitions list it. Returns the path of the collection.
   */
  define({ group, version, plural, kind }: ResourceType): string {
    const path = `/apis/${group}/${version}/${plural}`;
    this.#kinds.set(path, kind);
    this.serve(path);
    this.set(DEFINITIONS, { metadata: { name: `${plural}.${group}` } });
    return path;
  }

  /** Deletes the definition of a kind, and with it all objects. */
  undefine({ group, version, plural }: ResourceType): void {
    const path = `/apis/${group}/${version}/${plural}`;
    this.#kinds.delete(path);
    this.unserve(path);
    this.remove(DEFINITIONS, { name: `${plural}.${group}` });
  }

  /** Makes a collection exist: `/api/v1/pods`. For others, the server returns HTTP 404. */
  serve(path: string): void {
    if (!this.#collections.has(path))
      this.#collections.set(path, { objects: new Map(), events: [], watchers: new Map() });
  }

  /** Removes a collection, as when its definition is deleted: with its objects, and its watches end. */
  unserve(path: string): void {
    const collection = this.#collections.get(path);
    for (const object of [...(collection?.objects.values() ?? [])]) this.remove(path, object.metadata);
    this.#collections.delete(path);
    for (const stream of collection?.watchers.keys() ?? []) stream.end();
  }

  set(path: string, object: Listed): void {
    this.serve(path);
    const collection = this.#collection(path);
    const key = keyOf(object.metadata);
    const type = collection.objects.has(key) ? 'MODIFIED' : 'ADDED';
    const version = ++this.#version;
    const metadata = { uid: `uid-${key}`, ...object.metadata, resourceVersion: String(version) };
    const stored = { ...object, metadata };
    collection.objects.set(key, stored);
    this.#send(collection, { version, type, object: stored });
  }

  find(path: string, name: string, namespace: string): Listed | undefined {
    return this.#collections.get(path)?.objects.get(keyOf({ name, namespace }));
  }

  remove(path: string, { name, namespace }: { readonly name: string; readonly namespace?: string }): void {
    const collection = this.#collection(path);
    const key = keyOf({ name, ...(namespace === undefined ? {} : { namespace }) });
    const object = collection.objects.get(key);
    if (object === undefined) return;
    collection.objects.delete(key);
    const version = ++this.#version;
    const last = { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } };
    this.#send(collection, { version, type: 'DELETED', object: last });
  }

  /** Sends a bookmark to all watches. */
  bookmark(): void {
    for (const collection of this.#collections.values()) {
      for (const stream of collection.watchers.keys()) stream.write(this.#bookmark());
    }
  }

  /** Forgets all events so far: watches can begin only from now. */
  compact(): void {
    this.#compacted = ++this.#version;
    for (const collection of this.#collections.values()) collection.events = [];
  }

  /** Ends all watches in good order, as when their time is over. */
  endWatches(): void {
    for (const { watchers } of this.#collections.values()) for (const stream of watchers.keys()) stream.end();
  }

  /** Ends all watches with RST_STREAM. */
  resetWatches(code: number): void {
    for (const { watchers } of this.#collections.values()) for (const stream of watchers.keys()) stream.close(code);
  }

  watches(path: string): number {
    return this.#collections.get(path)?.watchers.size ?? 0;
  }

  /** Says on all connections that no further request is taken. */
  goaway(): void {
    for (const session of this.#sessions) session.goaway();
  }

  /** Breaks all connections. */
  disconnect(): void {
    for (const session of this.#sessions) session.destroy();
  }

  async stop(): Promise<void> {
    this.disconnect();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  fail(stream: ServerHttp2Stream, code: number, reason = '', headers: Readonly<Record<string, string>> = {}): true {
    stream.respond({ ':status': code, 'content-type': 'application/json', ...headers });
    stream.end(JSON.stringify(statusObject(code, reason)));
    return true;
  }

  json(stream: ServerHttp2Stream, value: unknown): true {
    stream.respond({ ':status': 200, 'content-type': 'application/json' });
    stream.end(JSON.stringify(value));
    return true;
  }

  #collection(path: string): Collection {
    const collection = this.#collections.get(path);
    if (collection === undefined) throw new Error(`no collection ${path}`);
    return collection;
  }

  #send(collection: Collection, event: Event): void {
    collection.events.push(event);
    for (const [stream, selects] of collection.watchers) {
      if (selects(event.object)) stream.write(lineOf(event));
    }
  }

  #answer({ path, query }: SeenRequest, stream: ServerHttp2Stream): void {
    const namespaced = /^(\/api\/v1|\/apis\/[^/]+\/[^/]+)\/namespaces\/([^/]+)\/([^/]+)$/.exec(path);
    const [, root = '', namespace, plural = ''] = namespaced ?? [];
    const collection = this.#collections.get(path) ?? this.#collections.get(`${root}/${plural}`);
    if (collection === undefined) this.#discover(path, stream);
    else if (query.get('watch') === '1') this.#watch(collection, selectorOf(namespace, query), query, stream);
    else this.#list(collection, selectorOf(namespace, query), query, stream);
  }

  #discover(path: string, stream: ServerHttp2Stream): void {
    if (path === '/apis') return void this.json(stream, this.#groups());
    const below = [...this.#kinds].filter(([collection]) => collection.startsWith(`${path}/`));
    if (below.length === 0) this.fail(stream, 404, 'NotFound');
    else {
      const resources = below.map(([collection, kind]) => {
        return { name: collection.split('/')[4], kind, namespaced: true, verbs: ['list', 'watch'] };
      });
      this.json(stream, {
        kind: 'APIResourceList',
        resources: [...resources, { name: 'gateways/status', kind: 'Gateway', verbs: ['get'] }],
      });
    }
  }

  #groups(): unknown {
    const parts = [...this.#kinds.keys()].map((collection) => collection.split('/'));
    const versions = Map.groupBy(parts, ([, , group]) => group);
    const groups = [...versions].map(([name, ofGroup]) => {
      return {
        name,
        versions: [...new Set(ofGroup.map(([, , , version]) => version))].map((version) => ({ version })),
      };
    });
    return { kind: 'APIGroupList', apiVersion: 'v1', groups };
  }

  #list(collection: Collection, selects: Selects, query: URLSearchParams, stream: ServerHttp2Stream): void {
    const all = [...collection.objects.values()].filter(selects);
    const from = Number(query.get('continue') ?? 0);
    const to = from + Number(query.get('limit') ?? all.length);
    const next = to < all.length ? { continue: String(to) } : {};
    this.json(stream, {
      kind: 'List',
      metadata: { resourceVersion: String(this.#version), ...next },
      items: all.slice(from, to),
    });
  }

  #watch(collection: Collection, selects: Selects, query: URLSearchParams, stream: ServerHttp2Stream): void {
    const initial = query.get('sendInitialEvents') === 'true';
    if (initial && !this.streamingLists) return void this.fail(stream, 422, 'Invalid');
    const from = Number(query.get('resourceVersion') ?? 0);
    const gone = !initial && from < this.#compacted;
    if (gone && this.goneAs === 'status') return void this.fail(stream, 410, 'Expired');
    stream.respond({ ':status': 200, 'content-type': 'application/json;stream=watch' });
    if (gone) {
      stream.end(`${JSON.stringify({ type: 'ERROR', object: statusObject(410, 'Expired') })}\n`);
      return;
    }
    if (initial) {
      for (const object of collection.objects.values()) {
        if (selects(object)) stream.write(lineOf({ type: 'ADDED', object }));
      }
      stream.write(this.#bookmark({ 'k8s.io/initial-events-end': 'true' }));
    } else {
      const events = collection.events.filter(({ version, object }) => version > from && selects(object));
      for (const event of events) stream.write(lineOf(event));
    }
    collection.watchers.set(stream, selects);
    stream.on('close', () => collection.watchers.delete(stream));
  }

  #bookmark(annotations: Readonly<Record<string, string>> = {}): string {
    const metadata = { resourceVersion: String(this.#version), annotations };
    return `${JSON.stringify({ type: 'BOOKMARK', object: { metadata } })}\n`;
  }
}

export function statusObject(code: number, reason: string): unknown {
  return { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason, message: `scripted ${reason}`, code };
}

function lineOf({ type, object }: Pick<Event, 'type' | 'object'>): string {
  return `${JSON.stringify({ type, object })}\n`;
}

function selectorOf(namespace: string | undefined, query: URLSearchParams): Selects {
  const [, name] = /^metadata\.name=(.*)$/.exec(query.get('fieldSelector') ?? '') ?? [];
  const [, label, value] = /^([^=]+)=([^=]*)$/.exec(query.get('labelSelector') ?? '') ?? [];
  const hasLabel = ({ labels }: Listed['metadata']): boolean =>
    label === undefined || (labels as Record<string, string> | undefined)?.[label] === value;
  return ({ metadata }) =>
    (namespace === undefined || metadata.namespace === namespace) &&
    (name === undefined || metadata.name === name) &&
    hasLabel(metadata);
}

function keyOf({ name, namespace = '' }: { readonly name: string; readonly namespace?: string }): string {
  return `${namespace}/${name}`;
}
