/** Requests to an API server for single objects and for raw paths. Lists are followed by informers. */
import { CtlError } from '../core/errors.ts';
import { ApiError, statusOf } from './api-error.ts';
import { contentTypeOf, readBody } from './body.ts';
import type { ApiRequest, ApiResponse, Connection } from './connection.ts';
import { apiVersionOf, decodeStatus, type KubernetesObject, PROTOBUF, pathOf, type ResourceType } from './objects.ts';

/** Default of `timeoutMs`. */
const REQUEST_TIMEOUT_MS = 30_000;
/** Maximum size of a response, bytes: one object, or a page of API discovery. */
const MAX_ANSWER = 16 * 1024 * 1024;
/** An error is one Status object; longer bodies are truncated. */
const MAX_ERROR = 64 * 1024;

/** How an object is patched (Kubernetes API concepts, "Patch operations"). */
export type PatchType = 'application/merge-patch+json' | 'application/json-patch+json' | 'application/apply-patch+yaml';

export interface RequestOptions {
  readonly namespace?: string;
  readonly signal?: AbortSignal;
  /** Time limit for the headers of a response, and then for its body, ms; default 30 s. */
  readonly timeoutMs?: number;
}

export interface PatchOptions extends RequestOptions {
  readonly type: PatchType;
  /** Part of the object that is patched, such as `status`. */
  readonly subresource?: string;
  /** The field manager of server-side apply, which requires it. */
  readonly fieldManager?: string;
  /** Whether server-side apply takes ownership of fields that other managers own. */
  readonly force?: boolean;
}

export interface DeleteOptions extends RequestOptions {
  /** Rejects with ApiError 409 if the object of this name has another UID. */
  readonly uid?: string;
  /** Rejects with ApiError 409 if the object has another version. */
  readonly resourceVersion?: string;
}

/** A request for any path; without `timeoutMs`, 30 s. */
type JsonRequest = Omit<ApiRequest, 'accept' | 'timeoutMs'> & Pick<RequestOptions, 'timeoutMs'>;

/** An object with content to be written; the server fills in the rest. */
export interface WrittenObject {
  readonly metadata: { readonly name?: string; readonly generateName?: string; readonly [field: string]: unknown };
  readonly [field: string]: unknown;
}

/**
 * All methods reject with ApiError if the server returns an error, and with ConnectionError if the response is
 * incomplete.
 */
export class KubernetesClient {
  readonly connection: Connection;

  constructor(connection: Connection) {
    this.connection = connection;
  }

  get(type: ResourceType, name: string, options: RequestOptions = {}): Promise<KubernetesObject> {
    return this.#object({ method: 'GET', path: pathOf(type, options.namespace, name), ...limitsOf(options) });
  }

  create(type: ResourceType, object: WrittenObject, options: RequestOptions = {}): Promise<KubernetesObject> {
    return this.#object({
      method: 'POST',
      path: pathOf(type, options.namespace),
      ...bodyOf(type, object),
      ...limitsOf(options),
    });
  }

  /** Replaces an object; rejects with ApiError 409 where `metadata.resourceVersion` is given and not the newest. */
  update(
    type: ResourceType,
    name: string,
    object: WrittenObject,
    options: RequestOptions = {},
  ): Promise<KubernetesObject> {
    const path = pathOf(type, options.namespace, name);
    return this.#object({ method: 'PUT', path, ...bodyOf(type, object), ...limitsOf(options) });
  }

  patch(type: ResourceType, name: string, patch: unknown, options: PatchOptions): Promise<KubernetesObject> {
    const { subresource, fieldManager, force } = options;
    const below = subresource === undefined ? '' : `/${subresource}`;
    const forced = force === true ? '&force=true' : '';
    const query = fieldManager === undefined ? '' : `?fieldManager=${encodeURIComponent(fieldManager)}${forced}`;
    return this.#object({
      method: 'PATCH',
      path: `${pathOf(type, options.namespace, name)}${below}${query}`,
      contentType: options.type,
      body: JSON.stringify(patch),
      ...limitsOf(options),
    });
  }

  async delete(type: ResourceType, name: string, options: DeleteOptions = {}): Promise<void> {
    const { namespace, uid, resourceVersion } = options;
    const preconditions = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid, resourceVersion } };
    const isGuarded = uid !== undefined || resourceVersion !== undefined;
    const body = isGuarded ? { contentType: 'application/json', body: JSON.stringify(preconditions) } : {};
    await this.json({ method: 'DELETE', path: pathOf(type, namespace, name), ...body, ...limitsOf(options) });
  }

  /** Any path, with JSON both ways. */
  async json(request: JsonRequest): Promise<unknown> {
    const { connection } = this;
    const timeoutMs = request.timeoutMs ?? REQUEST_TIMEOUT_MS;
    const response = await connection.open({ ...request, accept: 'application/json', timeoutMs });
    const timer = connection.clock.setTimer(timeoutMs, () => response.stream.destroy());
    try {
      if (!isSuccess(response)) throw await errorOf(response);
      const body = await readBody(response, MAX_ANSWER);
      return parsed(response, body);
    } finally {
      timer.cancel();
    }
  }

  async #object(request: JsonRequest): Promise<KubernetesObject> {
    // The API returns an object of the kind in the path.
    return (await this.json(request)) as KubernetesObject;
  }
}

export function isSuccess({ status }: ApiResponse): boolean {
  return status >= 200 && status < 300;
}

/** The error of a failed response; reads its body. */
export async function errorOf(response: ApiResponse): Promise<ApiError> {
  const { 'retry-after': retryAfter } = response.headers;
  let body: Buffer = Buffer.alloc(0);
  try {
    body = await readBody(response, MAX_ERROR);
  } catch {
    // The status code is enough.
  }
  const type = contentTypeOf(response);
  const text = type.startsWith(PROTOBUF) ? '' : body.toString('utf8');
  return new ApiError(statusOf(response.status, objectIn(body, type), text, retryAfter));
}

/** Undefined if the body is not an object, such as an error page of a proxy. */
function objectIn(body: Buffer, contentType: string): unknown {
  try {
    return decodeStatus(body, contentType);
  } catch {
    return undefined;
  }
}

function parsed(response: ApiResponse, body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    throw new CtlError('unavailable', `expected JSON, got ${JSON.stringify(contentTypeOf(response).slice(0, 80))}`);
  }
}

function bodyOf(type: ResourceType, object: WrittenObject): { readonly contentType: string; readonly body: string } {
  const body = JSON.stringify({ ...object, apiVersion: apiVersionOf(type), kind: type.kind });
  return { contentType: 'application/json', body };
}

function limitsOf({ signal, timeoutMs }: RequestOptions): Pick<RequestOptions, 'signal' | 'timeoutMs'> {
  return { ...(signal === undefined ? {} : { signal }), ...(timeoutMs === undefined ? {} : { timeoutMs }) };
}
