/**
 * Makes a scripted API server store what clients write, one object at a time, with the checks of a real one: names are
 * unique, and a write that has a version must have the newest. A `status` is written as part of its object.
 */

import type { ServerHttp2Stream } from 'node:http2';
import { isObject } from '../../core/objects.ts';
import type { Listed, ScriptedApiServer, SeenRequest } from './scripted-api-server.ts';

/** Returned by `refuse`: the status and reason of an error that answers a request instead. */
export type Refusal = readonly [status: number, reason: string];

const OBJECT = /^(\/api\/v1|\/apis\/[^/]+\/[^/]+)\/namespaces\/([^/]+)\/([^/]+)(?:\/([^/]+)(?:\/status)?)?$/;

/** `refuse` is called for each request and can be replaced while it runs. */
export function storeWrites(server: ScriptedApiServer): { refuse: (request: SeenRequest) => Refusal | undefined } {
  const control: { refuse: (request: SeenRequest) => Refusal | undefined } = { refuse: () => undefined };
  server.intercept = (request, stream) => {
    const refusal = control.refuse(request);
    if (refusal !== undefined) return server.fail(stream, ...refusal);
    const [, root = '', namespace = '', plural = '', name] = OBJECT.exec(request.path) ?? [];
    const collection = `${root}/${plural}`;
    if (request.method === 'POST' && plural !== '') return create(server, collection, namespace, request, stream);
    if (name === undefined) return false;
    return change(server, collection, { name, namespace }, request, stream);
  };
  return control;
}

function create(
  server: ScriptedApiServer,
  collection: string,
  namespace: string,
  { body }: SeenRequest,
  stream: ServerHttp2Stream,
): true {
  const object = JSON.parse(body) as Listed;
  const { name } = object.metadata;
  if (server.find(collection, name, namespace) !== undefined) return server.fail(stream, 409, 'AlreadyExists');
  server.set(collection, { ...object, metadata: { ...object.metadata, namespace } });
  return server.json(stream, server.find(collection, name, namespace));
}

function change(
  server: ScriptedApiServer,
  collection: string,
  metadata: { readonly name: string; readonly namespace: string },
  { method, body }: SeenRequest,
  stream: ServerHttp2Stream,
): true {
  const { name, namespace } = metadata;
  const before = server.find(collection, name, namespace);
  if (before === undefined) return server.fail(stream, 404, 'NotFound');
  if (method === 'GET') return server.json(stream, before);
  if (method === 'DELETE') {
    server.remove(collection, metadata);
    return server.json(stream, { kind: 'Status', status: 'Success' });
  }
  const written = JSON.parse(body) as Partial<Listed>;
  const { resourceVersion } = written.metadata ?? { resourceVersion: undefined };
  if (resourceVersion !== undefined && resourceVersion !== before.metadata.resourceVersion) {
    return server.fail(stream, 409, 'Conflict');
  }
  const after = method === 'PUT' ? written : merged(before, written);
  server.set(collection, { ...after, metadata: { ...before.metadata, ...after.metadata, ...metadata } });
  return server.json(stream, server.find(collection, name, namespace));
}

/** JSON merge patch (RFC 7396). */
function merged(before: object, patch: object): object & Partial<Listed> {
  const result: Record<string, unknown> = { ...before };
  for (const [key, value] of Object.entries(patch)) {
    const { [key]: old } = result;
    if (value === null) delete result[key];
    else if (typeof value === 'object' && !Array.isArray(value)) result[key] = merged(isObject(old) ? old : {}, value);
    else result[key] = value;
  }
  return result;
}
