/**
 * Requests to Consul's HTTP API. One of several servers is asked until it fails, then the next one. They are servers or
 * agents of one Consul cluster, so that an index means the same in all of them.
 */
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { Clock } from '../../core/clock.ts';
import { CtlError, toCtlError } from '../../core/errors.ts';
import { type HttpBytes, type HttpCall, httpBytes, shownUrl } from '../../core/network/http-call.ts';
import { FileCredentials } from './credentials.ts';
import type { Consistency, ConsulSettings } from './types.ts';

/** Sends one request. */
export type Call = (call: HttpCall, maxBytes: number) => Promise<HttpBytes>;

export interface Ask {
  /** Begins with `/v1/`; its parts are encoded. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** Limit for the whole response, ms. */
  readonly timeoutMs: number;
  readonly maxBytes: number;
  readonly consistency: Consistency;
  readonly signal: AbortSignal;
  /** Whether a failure says nothing about the server: the next request asks the same one. */
  readonly staysAtServer?: boolean;
}

export interface Answer {
  /** Index of the state that the answer shows (X-Consul-Index), at least 1. */
  readonly index: number;
  /** The answer contains everything that the registry knew at this time, monotonic ms. */
  readonly asOf: number;
  readonly body: Buffer;
}

export type ClientSettings = Pick<
  ConsulSettings,
  'servers' | 'tokenFile' | 'caFile' | 'consulNamespace' | 'partition' | 'datacenters' | 'maxRequests'
>;

/** Blocking queries of a datacenter, and the list of its checks. */
const WATCHES = 4;
/** Longest part of a server's own explanation in a message. */
const MAX_REASON = 200;

export class ConsulClient {
  readonly #settings: ClientSettings;
  readonly #clock: Clock;
  readonly #call: Call;
  readonly #credentials: FileCredentials;
  #current = 0;
  #agent: { readonly ca: string | undefined; readonly isTls: boolean; readonly agent: HttpAgent } | undefined;
  /** Number of requests that were sent. */
  requests = 0;

  constructor(settings: ClientSettings, clock: Clock, call: Call = httpBytes) {
    this.#settings = settings;
    this.#clock = clock;
    this.#call = call;
    this.#credentials = new FileCredentials(settings, clock.now);
  }

  /** The server that is asked, for messages. */
  get server(): string {
    return shownUrl(this.#server());
  }

  /** Rejects with CtlError of one line: `resource_exhausted` for a body that is too long, or another code. */
  async get(ask: Ask): Promise<Answer> {
    const asked = this.#current;
    try {
      return await this.#get(ask);
    } catch (error) {
      const failure = toCtlError(error);
      const isOfServer = failure.code !== 'resource_exhausted' && ask.staysAtServer !== true;
      if (!ask.signal.aborted && isOfServer) this.#leave(asked);
      throw failure;
    }
  }

  /** Closes connections that are not in use. */
  close(): void {
    this.#agent?.agent.destroy();
  }

  async #get({ path, query, timeoutMs, maxBytes, consistency, signal }: Ask): Promise<Answer> {
    const { token, ca } = await this.#credentials.current();
    const to = this.#urlOf(path, query, consistency);
    const sentAt = this.#clock.now();
    this.requests++;
    const headers = { accept: 'application/json', ...(token !== undefined && { 'x-consul-token': token }) };
    const agent = this.#agentFor(to.protocol === 'https:', ca);
    const { status, headers: answered, body } = await this.#call({ to, headers, timeoutMs, signal, agent }, maxBytes);
    if (status !== 200) throw new CtlError('unavailable', `returned HTTP ${status}${reasonIn(body)}`);
    if (answered['x-consul-knownleader'] === 'false') throw new CtlError('unavailable', 'it knows no leader');
    const index = numberIn(answered['x-consul-index']);
    if (index === undefined) throw new CtlError('unavailable', 'the response has no valid X-Consul-Index');
    const lag = numberIn(answered['x-consul-lastcontact']) ?? 0;
    return { index: Math.max(1, index), asOf: sentAt - lag, body };
  }

  #urlOf(path: string, query: Readonly<Record<string, string>>, consistency: Consistency): URL {
    const { consulNamespace, partition } = this.#settings;
    const server = this.#server();
    const url = new URL(server);
    url.pathname = `${server.pathname.replace(/\/+$/, '')}${path}`;
    const all = {
      ...query,
      ns: consulNamespace,
      partition,
      ...(consistency !== 'default' && { [consistency]: 'true' }),
    };
    for (const [name, value] of Object.entries(all)) if (value !== '') url.searchParams.set(name, value);
    return url;
  }

  /** New connections use what the files have now; those in use end with their requests. */
  #agentFor(isTls: boolean, ca: string | undefined): HttpAgent {
    const known = this.#agent;
    if (known !== undefined && known.ca === ca && known.isTls === isTls) return known.agent;
    const { maxRequests, datacenters } = this.#settings;
    const options = { keepAlive: true, maxSockets: (maxRequests + WATCHES) * Math.max(1, datacenters.length) };
    // Explicit, because NODE_TLS_REJECT_UNAUTHORIZED=0 would send the token to a server that is not verified.
    const agent = isTls
      ? new HttpsAgent({ ...options, rejectUnauthorized: true, ...(ca !== undefined && { ca }) })
      : new HttpAgent(options);
    this.#agent = { ca, isTls, agent };
    return agent;
  }

  #server(): URL {
    const { servers } = this.#settings;
    const server = servers[this.#current % servers.length];
    if (server === undefined) throw new CtlError('failed_precondition', 'expected a server');
    return server;
  }

  /** Asks the next server from now on, unless another request has decided so already. */
  #leave(asked: number): void {
    if (this.#current === asked) this.#current = (asked + 1) % this.#settings.servers.length;
  }
}

function numberIn(header: string | string[] | undefined): number | undefined {
  if (typeof header !== 'string' || !/^\d{1,20}$/.test(header)) return undefined;
  const number = Number(header);
  return Number.isSafeInteger(number) ? number : undefined;
}

/** What the server says, in printable characters. */
function reasonIn(body: Buffer): string {
  const text = body
    .toString('utf8', 0, 4 * MAX_REASON)
    .replaceAll(/[^\x20-\x7e]+/g, ' ')
    .trim();
  return text === '' ? '' : `: ${text.slice(0, MAX_REASON)}`;
}
