/**
 * Requests to a Kubernetes API server over HTTPS, with plain objects: no client library, so that tests see all of it.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { parseAllDocuments } from 'yaml';
import type { Owner } from '../owner.ts';

export type Credential =
  | { readonly token: string }
  /** PEM. */
  | { readonly certificate: string; readonly key: string };

/** The address of an API server, and the caller's credentials. */
export interface ApiAccess {
  /** `https://127.0.0.1:24001`. */
  readonly url: string;
  /** PEM of the authority of the server's certificate. */
  readonly ca: string;
  readonly credential: Credential;
}

export interface ApiObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly [field: string]: unknown;
  };
  readonly [field: string]: unknown;
}

/** Identifies an object: a whole object, or only these fields of it. */
export interface ApiReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

export interface ApiAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** The body as JSON; throws when it is not JSON. */
  json(): unknown;
}

export interface ApiRequest {
  readonly method?: string;
  /** With the query. */
  readonly path: string;
  readonly body?: unknown;
  /** Default `application/json`. */
  readonly contentType?: string;
}

/** An answer other than 2xx; the message is the server's own. */
export class ApiError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(`${status}: ${message}`);
    this.status = status;
  }
}

export interface ApplyOptions {
  /** Default `test`. */
  readonly fieldManager?: string;
  /** Validation only: nothing is stored. */
  readonly dryRun?: boolean;
}

export interface KubernetesApi {
  /** Any request; resolves with an answer of any status. */
  request(request: ApiRequest): Promise<ApiAnswer>;
  /** The lines of an unending answer, such as a watch. Throws `ApiError` when the status is not 200. */
  lines(path: string, signal: AbortSignal): AsyncIterable<string>;
  /** GET; throws `ApiError` when the answer is not 2xx. */
  get<T = ApiObject>(path: string): Promise<T>;
  /**
   * Server-side apply of YAML text or of objects, one after the other, with strict field validation. A `status` is
   * written afterwards, through the status subresource where the kind has one. Returns what the server stored.
   */
  apply(documents: string | readonly object[], options?: ApplyOptions): Promise<readonly ApiObject[]>;
  /** A JSON merge patch (RFC 7386), of a subresource such as `status` when one is named. */
  patch(reference: ApiReference, patch: object, subresource?: string): Promise<ApiObject>;
  /** Deletes at once, without grace period. An object that does not exist is not an error. */
  delete(reference: ApiReference): Promise<void>;
  /** The path of an object or, without a name, of its collection. */
  path(reference: {
    apiVersion: string;
    kind: string;
    metadata?: { name?: string; namespace?: string };
  }): Promise<string>;
}

/** A resource as `/api/v1` and `/apis/<group>/<version>` list them. */
interface ApiResource {
  readonly name: string;
  readonly kind: string;
  readonly namespaced: boolean;
}

const REQUEST_TIMEOUT_MS = 60_000;

/** A new definition is not ready: "storage is (re)initializing" (429), or it is not served yet (404). */
const STARTING_STATUSES: ReadonlySet<number> = new Set([404, 429]);
const RETRY_MS = 100;
const RETRIES = 100;

const messageOf = ({ status, body }: ApiAnswer): string => {
  try {
    const { message } = JSON.parse(body) as { message?: string };
    return message ?? body;
  } catch {
    return body === '' ? `no body with status ${status}` : body;
  }
};

/** The error of an answer other than 2xx. */
export const errorOf = (answer: ApiAnswer): ApiError => new ApiError(answer.status, messageOf(answer));

/** Options of node:https for a server and a caller. */
function connectionOptions({ url, ca, credential }: ApiAccess, agent: Agent) {
  const { hostname, port } = new URL(url);
  const client = 'token' in credential ? {} : { cert: credential.certificate, key: credential.key };
  const authorization = 'token' in credential ? { authorization: `Bearer ${credential.token}` } : {};
  return { agent, host: hostname, port, ca, ...client, headers: { ...authorization, accept: 'application/json' } };
}

type ConnectionOptions = ReturnType<typeof connectionOptions>;

function send(connection: ConnectionOptions, sent: ApiRequest): Promise<ApiAnswer> {
  const { method = 'GET', path, body, contentType = 'application/json' } = sent;
  const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
  // node:https sends no length with a DELETE; the server would parse its body as the next request.
  const length = text === undefined ? {} : { 'content-length': Buffer.byteLength(text) };
  return new Promise((resolve, reject) => {
    const headers = { ...connection.headers, 'content-type': contentType, ...length };
    const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    const outgoing = httpsRequest({ ...connection, method, path, headers, signal });
    outgoing.once('error', reject);
    outgoing.once('response', (incoming) => {
      const chunks: Buffer[] = [];
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
      incoming.once('error', reject);
      incoming.once('end', () => {
        const answer = Buffer.concat(chunks).toString();
        const { statusCode: status = 0, headers } = incoming;
        resolve({ status, headers, body: answer, json: () => JSON.parse(answer) as unknown });
      });
    });
    outgoing.end(text);
  });
}

async function* lines(connection: ConnectionOptions, path: string, signal: AbortSignal): AsyncGenerator<string> {
  const incoming = await new Promise<IncomingMessage>((resolve, reject) => {
    const outgoing = httpsRequest({ ...connection, path, signal });
    outgoing.once('error', reject);
    outgoing.once('response', resolve);
    outgoing.end();
  });
  if (incoming.statusCode !== 200) {
    incoming.resume();
    throw new ApiError(incoming.statusCode ?? 0, `no stream at ${path}`);
  }
  try {
    yield* createInterface({ input: incoming, signal });
  } finally {
    incoming.destroy();
  }
}

/** The documents of YAML text, or the objects themselves. */
function objectsOf(documents: string | readonly object[]): ApiObject[] {
  if (typeof documents !== 'string') return [...documents] as ApiObject[];
  return parseAllDocuments(documents)
    .map((document) => {
      const [error] = document.errors;
      if (error !== undefined) throw error;
      return document.toJS() as ApiObject | null;
    })
    .filter((object) => object !== null);
}

/** A client; its connections end with the owner. */
export function createApi(owner: Owner, access: ApiAccess): KubernetesApi {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  owner.after(() => agent.destroy());
  const connection = connectionOptions(access, agent);
  const request = (sent: ApiRequest) => send(connection, sent);
  const answerOf = async (sent: ApiRequest): Promise<unknown> => {
    const answer = await request(sent);
    if (answer.status < 200 || answer.status > 299) throw errorOf(answer);
    return answer.json();
  };
  /** While a definition is new, its objects cannot be written yet. */
  const sendWithRetries = async (sent: ApiRequest): Promise<unknown> => {
    for (let attempt = 0; ; attempt++) {
      try {
        return await answerOf(sent);
      } catch (error) {
        const starting = error instanceof ApiError && STARTING_STATUSES.has(error.status);
        const namespaceMissing = error instanceof Error && error.message.includes('namespaces "');
        if (!starting || namespaceMissing || attempt === RETRIES) throw error;
      }
      await delay(RETRY_MS);
    }
  };

  const known = new Map<string, ApiResource>();
  const resourceOf = async (apiVersion: string, kind: string): Promise<ApiResource> => {
    const key = `${apiVersion}/${kind}`;
    const group = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
    for (let attempt = 0; !known.has(key); attempt++) {
      if (attempt === RETRIES) throw new ApiError(404, `the server has no ${kind} in ${apiVersion}`);
      if (attempt > 0) await delay(RETRY_MS);
      const answer = await request({ path: group });
      if (answer.status !== 200) continue;
      for (const resource of (answer.json() as { resources: ApiResource[] }).resources)
        if (!resource.name.includes('/')) known.set(`${apiVersion}/${resource.kind}`, resource);
    }
    return known.get(key) as ApiResource;
  };

  const path: KubernetesApi['path'] = async ({ apiVersion, kind, metadata = {} }) => {
    const { name, namespaced } = await resourceOf(apiVersion, kind);
    const group = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
    const namespace = namespaced ? `/namespaces/${metadata.namespace ?? 'default'}` : '';
    return `${group}${namespace}/${name}${metadata.name === undefined ? '' : `/${metadata.name}`}`;
  };

  const patch: KubernetesApi['patch'] = async (reference, changes, subresource) => {
    const target = await path(reference);
    return (await answerOf({
      method: 'PATCH',
      path: subresource === undefined ? target : `${target}/${subresource}`,
      contentType: 'application/merge-patch+json',
      body: changes,
    })) as ApiObject;
  };

  const applyOne = async (object: ApiObject, options: ApplyOptions): Promise<ApiObject> => {
    const { fieldManager = 'test', dryRun = false } = options;
    const query = `fieldManager=${fieldManager}&force=true&fieldValidation=Strict${dryRun ? '&dryRun=All' : ''}`;
    const applied = (await sendWithRetries({
      method: 'PATCH',
      path: `${await path(object)}?${query}`,
      contentType: 'application/apply-patch+yaml',
      body: object,
    })) as ApiObject;
    const { status } = object;
    // For a kind without the subresource the status was stored with the object.
    if (status === undefined || dryRun || JSON.stringify(applied.status) === JSON.stringify(status)) return applied;
    return await patch(object, { status }, 'status');
  };

  return {
    request,
    lines: (from, signal) => lines(connection, from, signal),
    get: async <T>(from: string) => (await answerOf({ path: from })) as T,
    async apply(documents, options = {}) {
      const applied: ApiObject[] = [];
      for (const object of objectsOf(documents)) applied.push(await applyOne(object, options));
      return applied;
    },
    patch,
    async delete(reference) {
      const answer = await request({
        method: 'DELETE',
        path: await path(reference),
        body: { gracePeriodSeconds: 0, propagationPolicy: 'Background' },
      });
      if (answer.status !== 404 && answer.status > 299) throw errorOf(answer);
    },
    path,
  };
}

/** A kubeconfig with one cluster, one user and one context, as YAML (which JSON is). */
export function kubeconfig({ url, ca, credential }: ApiAccess, namespace = 'default'): string {
  const base64 = (text: string) => Buffer.from(text).toString('base64');
  const user =
    'token' in credential
      ? { token: credential.token }
      : {
          'client-certificate-data': base64(credential.certificate),
          'client-key-data': base64(credential.key),
        };
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster: { server: url, 'certificate-authority-data': base64(ca) } }],
    users: [{ name: 'test', user }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test', namespace } }],
    'current-context': 'test',
  };
  return `${JSON.stringify(config, null, 2)}\n`;
}
