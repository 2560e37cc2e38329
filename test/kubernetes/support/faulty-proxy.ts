/** A reverse proxy in front of a real API server that fails as a test tells it to. */
import {
  type ClientHttp2Session,
  connect,
  constants,
  createSecureServer,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import type { Owner } from '../../harness/index.ts';
import { createAuthority, serverCertificate } from '../../harness/kubernetes/certificates.ts';
import type { Kubernetes } from '../../harness/kubernetes/index.ts';

export interface FaultyProxy {
  readonly url: string;
  /** PEM of the authority of its certificate. */
  readonly ca: string;
  /** Requests that were answered with 429. */
  readonly throttled: () => number;
  /** Watches that were opened. */
  readonly watches: () => number;
  /** Lists and watches that the API server answered with success, each as it was asked for. */
  readonly reads: readonly Read[];
  /** Statuses of the API server, each with how many answers had it. */
  readonly answers: ReadonlyMap<number, number>;
  /** Answers every further request with 429 and `Retry-After: 1`; 0: none. */
  throttle(on: boolean): void;
  /** Whether a watch of the collection at this path is open. */
  isWatching(path: string): boolean;
  /**
   * Ends all watches in good order, as when their time is over.
   * @param except path of a collection whose watches stay open
   */
  endWatches(except?: string): void;
  /** Ends each watch after this time, ms; undefined: never. */
  limitWatches(ms: number | undefined): void;
  /** Breaks all connections and takes no more. */
  cut(): void;
  restore(): void;
}

/** A request for the objects of a collection. */
export interface Read {
  readonly path: string;
  /** Label and field selector of the request; '' without. */
  readonly selector: string;
  /** `list and watch`: a watch that begins with all objects. */
  readonly kind: 'list' | 'watch' | 'list and watch';
}

const HOST = '127.0.0.1';

export async function startFaultyProxy(owner: Owner, cluster: Kubernetes): Promise<FaultyProxy> {
  const authority = createAuthority();
  const { certificate, key } = serverCertificate(authority, [HOST]);
  const server = createSecureServer({ cert: certificate, key });
  const sessions = new Set<ServerHttp2Session>();
  /** Open watches, with the paths of their collections. */
  const watches = new Map<ServerHttp2Stream, string>();
  const answers = new Map<number, number>();
  const reads: Read[] = [];
  let isCut = false;
  let isThrottling = false;
  let throttled = 0;
  let opened = 0;
  let watchMs: number | undefined;

  const end = (stream: ServerHttp2Stream): void => {
    if (!stream.destroyed) stream.end();
  };
  const forward = (upstream: ClientHttp2Session, stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void => {
    const { ':authority': _authority, host: _host, ...kept } = headers;
    const request = upstream.request(kept, { endStream: false });
    stream.pipe(request);
    request.on('error', () => stream.close(constants.NGHTTP2_INTERNAL_ERROR));
    stream.on('close', () => request.close(constants.NGHTTP2_CANCEL));
    request.on('response', (answer) => {
      const { ':status': status = 502 } = answer;
      answers.set(status, (answers.get(status) ?? 0) + 1);
      if (stream.destroyed) return;
      stream.respond(answer);
      request.pipe(stream);
      const [path = '', search = ''] = String(headers[':path']).split('?');
      const query = new URLSearchParams(search);
      const isWatch = query.has('watch', '1');
      if (status !== 200 || !(isWatch || query.has('limit'))) return;
      const selector = [query.get('labelSelector'), query.get('fieldSelector')].filter((each) => each !== null).join();
      const isList = query.has('sendInitialEvents');
      // Further pages are of the same list.
      if (!query.has('continue'))
        reads.push({ path, selector, kind: isWatch ? (isList ? 'list and watch' : 'watch') : 'list' });
      if (!isWatch) return;
      opened++;
      watches.set(stream, path);
      stream.on('close', () => watches.delete(stream));
      if (watchMs !== undefined) setTimeout(() => end(stream), watchMs).unref();
    });
  };
  server.on('session', (session) => {
    sessions.add(session);
    session.on('error', () => {});
    if (isCut) return session.destroy();
    // One connection behind each: when the server is lost, its clients lose theirs.
    const upstream = connect(cluster.url, { ca: cluster.ca });
    upstream.on('error', () => {});
    // After a request with a refused token, the server takes no more requests on this connection, while watches on it
    // stay open for minutes. A client that was not sent this frame would be refused on this connection until then.
    upstream.on('goaway', () => session.close());
    upstream.on('close', () => session.destroy());
    session.on('close', () => {
      sessions.delete(session);
      upstream.destroy();
    });
    session.on('stream', (stream, headers) => {
      stream.on('error', () => {});
      if (!isThrottling) return forward(upstream, stream, headers);
      throttled++;
      stream.respond({ ':status': 429, 'retry-after': '1', 'content-type': 'text/plain' });
      stream.end('Too many requests, please try again later.\n');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, HOST, resolve));
  owner.after(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  return {
    url: `https://${HOST}:${(server.address() as AddressInfo).port}`,
    ca: authority.certificate,
    throttled: () => throttled,
    watches: () => opened,
    answers,
    reads,
    throttle(on) {
      isThrottling = on;
    },
    isWatching: (path) => watches.values().some((each) => each === path),
    endWatches(except) {
      for (const [stream, path] of watches) if (path !== except) end(stream);
    },
    limitWatches(ms) {
      watchMs = ms;
      if (ms !== undefined) for (const stream of watches.keys()) end(stream);
    },
    cut() {
      isCut = true;
      for (const session of sessions) session.destroy();
    },
    restore() {
      isCut = false;
    },
  };
}
