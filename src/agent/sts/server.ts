/**
 * The security token service (--stsPort): `POST /token` exchanges tokens (RFC 8693), `GET /stsStatus` lists the kept
 * ones without the tokens themselves. It serves programs of this machine only: it listens on loopback, and refuses
 * requests of web pages and of proxies. Tokens are never logged.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { readUpTo } from '../../core/network/body.ts';
import { isMissingAddress, listen, portOf } from '../../core/network/listen.ts';
import { notLocal } from '../../core/network/loopback.ts';
import { startParts } from '../../core/process/closers.ts';
import { closeServer, createBoundedServer } from '../../http/index.ts';
import {
  ACCESS_TOKEN_TYPE,
  type IssuedToken,
  OAuthError,
  type OAuthErrorCode,
  type TokenManager,
} from '../credentials/index.ts';
import { exchangeRequest } from './request.ts';

const LOOPBACK_ADDRESSES = ['127.0.0.1', '::1'] as const;
const MAX_BODY_BYTES = 64 * 1024;
/** The clients are a few programs of one workload. */
const MAX_CONNECTIONS = 64;

export interface StsServer {
  /** The port that it listens on. */
  readonly port: number;
  close(): Promise<void>;
}

export interface StsOptions {
  /** 0 selects any free port. */
  readonly port: number;
  readonly manager: TokenManager;
  readonly log: Log;
  /** Epoch ms. */
  readonly now: () => number;
}

/** Rejects with a CtlError of one line when the port is not available. */
export function startStsServer(options: StsOptions): Promise<StsServer> {
  return startParts(options.log, async (closers) => {
    let { port } = options;
    let listens = false;
    for (const host of LOOPBACK_ADDRESSES) {
      const server = await start(options, host, port);
      if (server === undefined) continue;
      closers.add(() => closeServer(server));
      listens = true;
      port = portOf(server);
    }
    if (listens) return { port };
    throw new CtlError('unavailable', 'this machine has no loopback address', { field: `--stsPort ${port}` });
  });
}

/** Undefined when the machine does not have the address: one without IPv6 has no ::1. */
async function start(options: StsOptions, host: string, port: number): Promise<Server | undefined> {
  const name = `--stsPort ${port}`;
  const warn = (line: string): void => options.log.warn(line);
  const server = createBoundedServer({ name, warn, maxConnections: MAX_CONNECTIONS }, (request, response) => {
    serve(request, response, options).catch(() => response.destroy());
  });
  try {
    await listen(server, name, { host, port }, warn);
    return server;
  } catch (error) {
    if (isMissingAddress(error)) return undefined;
    throw error;
  }
}

async function serve(request: IncomingMessage, response: ServerResponse, options: StsOptions): Promise<void> {
  const foreign = notLocal(request);
  if (foreign !== undefined) return text(response, 403, `allowed only from this machine: ${foreign}\n`);
  // Browsers send it with each request that a page's script makes, and its programs need no token of the workload.
  if (request.headers.origin !== undefined) return text(response, 403, 'not allowed from web pages\n');
  const [path] = (request.url ?? '/').split('?');
  const { method = 'GET' } = request;
  switch (path) {
    case '/token':
      if (method !== 'POST') return text(response, 405, 'POST only\n', { allow: 'POST' });
      return exchange(request, response, options);
    case '/stsStatus':
      if (method !== 'GET' && method !== 'HEAD') return text(response, 405, 'GET only\n', { allow: 'GET, HEAD' });
      request.resume();
      return json(response, 200, describeTokens(options.manager));
    default:
      return text(response, 404, 'not found\n');
  }
}

async function exchange(
  request: IncomingMessage,
  response: ServerResponse,
  { manager, log, now }: StsOptions,
): Promise<void> {
  const { authorization } = request.headers;
  try {
    if (authorization !== undefined)
      throw new OAuthError('invalid_client', 'this server does not authenticate clients');
    const body = await readBody(request);
    const issued = await manager.token(exchangeRequest(request.headers['content-type'], body), 'access');
    json(response, 200, toResponse(issued, now()));
  } catch (error) {
    // Clients get a response that they understand even for an unexpected error.
    const { status, code, description } = toFailure(error);
    log.debug('no token is issued', { status, error: code });
    // RFC 6749 section 5.2: with the scheme that the client has used.
    const [scheme = ''] = (authorization ?? '').split(' ');
    const challenge = status === 401 && /^[A-Za-z]+$/.test(scheme) ? { 'www-authenticate': scheme } : {};
    json(response, status, { error: code, error_description: description }, challenge);
  }
}

class BodyTooLong extends Error {}

async function readBody(request: IncomingMessage): Promise<string> {
  const body = await readUpTo(MAX_BODY_BYTES, request.iterator({ destroyOnReturn: false }));
  if (body !== undefined) return body.toString('utf8');
  // The rest is discarded: a client that is still sending would not read the answer.
  request.resume();
  throw new BodyTooLong();
}

interface Failure {
  readonly status: number;
  readonly code: OAuthErrorCode;
  readonly description: string;
}

function toFailure(error: unknown): Failure {
  if (error instanceof BodyTooLong)
    return { status: 413, code: 'invalid_request', description: `the body is longer than ${MAX_BODY_BYTES} bytes` };
  if (error instanceof OAuthError)
    return { status: error.code === 'invalid_client' ? 401 : 400, code: error.code, description: error.message };
  // Permanent failures: the endpoint is misconfigured, or refuses the agent. RFC 8693 section 2.2.2: the server is
  // unable to issue a token for the target.
  if (error instanceof CtlError && error.code === 'failed_precondition')
    return { status: 400, code: 'invalid_target', description: ascii(error.oneLine()) };
  return { status: 503, code: 'temporarily_unavailable', description: ascii(oneLineOf(error)) };
}

/** RFC 6749 section 5.2: the characters of a description. */
function ascii(description: string): string {
  return description.replace(/[^\x20-\x7e]/g, ' ').replace(/["\\]/g, "'");
}

/** RFC 8693 section 2.2.1. */
function toResponse(issued: IssuedToken, now: number): object {
  const { token, issuedTokenType, tokenType, scope, expiresAt } = issued;
  return {
    access_token: token,
    issued_token_type: issuedTokenType || ACCESS_TOKEN_TYPE,
    token_type: tokenType,
    ...(expiresAt === undefined ? {} : { expires_in: Math.max(0, Math.floor((expiresAt - now) / 1000)) }),
    ...(scope === '' ? {} : { scope }),
  };
}

/** The members that Istio's agent returns, without the token. */
function describeTokens(manager: TokenManager): object {
  const tokens = manager.status().map(({ kind, audience, scope, issuedAt, expiresAt }) => ({
    token_type: kind,
    issue_time: new Date(issuedAt).toISOString(),
    expire_time: new Date(expiresAt).toISOString(),
    ...(audience === '' ? {} : { audience }),
    ...(scope === '' ? {} : { scope }),
  }));
  return { tokens };
}

function json(response: ServerResponse, status: number, body: object, headers: Record<string, string> = {}): void {
  send(response, status, `${JSON.stringify(body)}\n`, { 'content-type': 'application/json', ...headers });
}

function text(response: ServerResponse, status: number, body: string, headers: Record<string, string> = {}): void {
  send(response, status, body, { 'content-type': 'text/plain', ...headers });
}

function send(response: ServerResponse, status: number, body: string, headers: Record<string, string>): void {
  // RFC 6749 section 5.1: answers with tokens are not cached.
  response.writeHead(status, { 'cache-control': 'no-store', pragma: 'no-cache', ...headers }).end(body);
}
