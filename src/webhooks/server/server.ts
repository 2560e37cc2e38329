/**
 * The HTTPS server that the API server calls. It checks and reads requests on the main thread; a worker answers them.
 *
 *   TLS ──▶ path, method, content type ──▶ body (bounded) ──▶ admission pool ──▶ response
 *
 * Callers are not authenticated: API servers usually show no certificate to webhooks, and answering a request has no
 * side effects.
 * HTTP/1.1 only, which is what API servers use for webhooks.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { SecureContextOptions } from 'node:tls';
import { CtlError, toCtlError } from '../../core/errors.ts';
import { listen } from '../../core/network/listen.ts';
import { networkOf } from '../../grpc/index.ts';
import { createBoundedTlsServer, goneSignal } from '../../http/index.ts';
import type { AnyResource } from '../../resources/index.ts';
import type { ReviewAnswer, Webhook } from '../tasks.ts';
import { BodyQuota, readBody, TooLarge } from './bodies.ts';
import type { Caller, CallerRank } from './callers.ts';
import { webhookAt } from './paths.ts';
import type { AdmissionPool } from './pool.ts';

/** How long in-flight requests may take after shutdown begins, in ms: the API server's default timeout. */
const CLOSE_TIMEOUT_MS = 10_000;

/**
 * Time between requests of a connection, ms. API servers keep idle connections for 90 s. If an API server
 * sends a request while this server closes the connection, the request fails, because it is not retried.
 */
const KEEP_ALIVE_TIMEOUT_MS = 120_000;

const RETRY_AFTER_SECONDS = '1';

/** The certificate of the server, which may be replaced. */
export interface ServerCertificateSource {
  context(): SecureContextOptions;
  /** Calls `listener` after each change. Returns a function that stops this. */
  onRenew(listener: () => void): () => void;
}

export interface WebhookObserver {
  /** A request for a webhook was received. */
  requested(webhook: Webhook): void;
  answered(webhook: Webhook, answer: ReviewAnswer): void;
  /** A request was not answered with a review. `webhook` is undefined for unknown paths. */
  failed(webhook: Webhook | undefined, status: number, message: string, peer: string): void;
}

export interface WebhookServerOptions {
  /** The flag of the address, for messages. */
  readonly flag: string;
  readonly address: { readonly host: string | undefined; readonly port: number };
  readonly certificate: ServerCertificateSource;
  readonly pool: AdmissionPool;
  readonly observer: WebhookObserver;
  /** What is known about a client's address. */
  readonly rankOf: (address: string) => CallerRank;
  /**
   * A warning about what a document would do, for the API server alone: anyone can call, and it tells something of the
   * mesh. Undefined: there is none. Never rejects.
   */
  readonly effectOf?: (document: AnyResource) => Promise<string | undefined>;
  /** Why the webhooks cannot answer yet; undefined: they can. */
  readonly notReady: () => string | undefined;
  readonly warn: (line: string) => void;
  readonly maxConnections?: number;
  /** Time from accepting a connection to the end of a request's headers, and of the TLS handshake, ms. */
  readonly headersTimeoutMs?: number;
}

export interface WebhookServer {
  readonly port: number;
  /** Answers the requests in progress and closes. */
  close(): Promise<void>;
}

/** A request that is answered with a status other than 200, and one line of text. */
class Refusal extends CtlError {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super('invalid_argument', message);
    this.status = status;
    this.headers = headers;
  }
}

/** Resolves when the server listens. Rejects with a CtlError `unavailable` that names the flag and the address. */
export async function startWebhookServer(options: WebhookServerOptions): Promise<WebhookServer> {
  const { flag, address, certificate, warn, maxConnections, headersTimeoutMs } = options;
  const limits = {
    keepAliveTimeoutMs: KEEP_ALIVE_TIMEOUT_MS,
    ...(maxConnections !== undefined && { maxConnections }),
    ...(headersTimeoutMs !== undefined && { headersTimeoutMs }),
  };
  const quota = new BodyQuota();
  const server = createBoundedTlsServer({ name: flag, warn, ...limits }, certificate.context(), (request, response) => {
    void serve(options, quota, request, response);
  });
  const stop = certificate.onRenew(() => server.setSecureContext(certificate.context()));
  const port = await listen(server, flag, address, warn).catch((error: unknown) => {
    stop();
    throw error;
  });
  return {
    port,
    async close() {
      stop();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      const timer = setTimeout(() => server.closeAllConnections(), CLOSE_TIMEOUT_MS);
      await closed;
      clearTimeout(timer);
    },
  };
}

async function serve(
  options: WebhookServerOptions,
  quota: BodyQuota,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { observer, notReady, rankOf } = options;
  const [path = ''] = (request.url ?? '').split('?', 1);
  const { remoteAddress = '' } = request.socket;
  const caller = { address: networkOf(remoteAddress), rank: rankOf(remoteAddress) };
  let webhook: Webhook | undefined;
  response.on('error', () => {});
  try {
    const reason = notReady();
    // Before the server is closed, clients learn that they need another connection.
    if (reason !== undefined) response.setHeader('connection', 'close');
    if (path === '/ready') return sendText(response, reason === undefined ? 200 : 503, readyText(reason));
    webhook = checked(path, request);
    observer.requested(webhook);
    const answer = await reviewed(options.pool, quota, caller, webhook, request, response);
    observer.answered(webhook, answer);
    send(response, 200, 'application/json', await withEffect(answer, caller, options));
  } catch (error) {
    if (response.closed) return;
    const { status, message, headers } = refusalOf(error);
    observer.failed(webhook, status, message, caller.address);
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    sendText(response, status, `${message}\n`);
  }
}

/** The body of an answer, for a dry run of an API server with what the document would do. */
async function withEffect(
  { body, candidate }: ReviewAnswer,
  { rank }: Caller,
  { effectOf }: WebhookServerOptions,
): Promise<string> {
  if (candidate === undefined || effectOf === undefined || rank !== 'api-server') return body;
  const warning = await effectOf(candidate);
  if (warning === undefined) return body;
  const review = JSON.parse(body) as { readonly response: { readonly warnings?: readonly string[] } };
  const { response } = review;
  return JSON.stringify({ ...review, response: { ...response, warnings: [...(response.warnings ?? []), warning] } });
}

function readyText(reason: string | undefined): string {
  return reason === undefined ? 'ready\n' : `not ready: ${reason}\n`;
}

/** The webhook of a request whose head is as expected; throws Refusal otherwise. */
function checked(path: string, { method, headers }: IncomingMessage): Webhook {
  const webhook = webhookAt(path);
  if (webhook === undefined) throw new Refusal(404, 'not found: the webhooks are /inject and /validate');
  if (method !== 'POST') throw new Refusal(405, 'expected the method POST', { allow: 'POST' });
  const [type = ''] = (headers['content-type'] ?? '').split(';', 1);
  if (type.trim().toLowerCase() !== 'application/json') {
    throw new Refusal(415, 'expected the content type application/json', { accept: 'application/json' });
  }
  if ((headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity')
    throw new Refusal(415, 'compressed bodies are not supported');
  return webhook;
}

async function reviewed(
  pool: AdmissionPool,
  quota: BodyQuota,
  caller: Caller,
  webhook: Webhook,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<ReviewAnswer> {
  const signal = goneSignal(response);
  const { bytes, release } = await readBody(request, quota, caller);
  try {
    return await pool.review({ caller, webhook, body: bytes, signal });
  } finally {
    release();
  }
}

function refusalOf(error: unknown): Pick<Refusal, 'status' | 'message' | 'headers'> {
  if (error instanceof Refusal) return error;
  // The rest of the request is not read.
  if (error instanceof TooLarge) return { status: 413, message: error.message, headers: { connection: 'close' } };
  const { code, message } = toCtlError(error);
  switch (code) {
    case 'invalid_argument':
      return { status: 400, message, headers: {} };
    case 'resource_exhausted':
      // The API server tries again, within its own timeout.
      return { status: 503, message, headers: { 'retry-after': RETRY_AFTER_SECONDS, connection: 'close' } };
    case 'unavailable':
      return { status: 503, message, headers: { connection: 'close' } };
    default:
      return { status: 500, message, headers: {} };
  }
}

function sendText(response: ServerResponse, status: number, text: string): void {
  send(response, status, 'text/plain; charset=utf-8', text);
}

function send(response: ServerResponse, status: number, contentType: string, text: string): void {
  response.writeHead(status, { 'content-type': contentType, 'x-content-type-options': 'nosniff' });
  response.end(text);
}
