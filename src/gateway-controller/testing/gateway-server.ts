/** A scripted API server with kinds of the Gateway API, which stores statuses and applied objects. */
import type { ServerHttp2Stream } from 'node:http2';
import {
  DEFINITIONS,
  type Listed,
  ScriptedApiServer,
  type SeenRequest,
} from '../../kubernetes/testing/scripted-api-server.ts';

export const GROUP = 'gateway.networking.k8s.io';
export const API = `/apis/${GROUP}/v1`;
export const GATEWAYS = `${API}/gateways`;
export const ROUTES = `${API}/httproutes`;
export const SERVICES = '/api/v1/services';
export const PODS = '/api/v1/pods';
export const CONTROLLER = 'mesh.io/gateway-controller';

type Refusal = readonly [status: number, reason: string, headers?: Readonly<Record<string, string>>];

/** A server that has the kinds, and stores patches: of statuses, and whole objects that are applied. */
export async function startGatewayServer() {
  const server = await ScriptedApiServer.start();
  for (const path of [GATEWAYS, ROUTES, `${API}/gatewayclasses`]) server.serve(path);
  const leases = '/apis/coordination.k8s.io/v1/leases';
  for (const path of [PODS, SERVICES, '/api/v1/serviceaccounts', '/apis/apps/v1/deployments', leases])
    server.serve(path);
  const control: Control = { refuse: () => undefined, kinds: [] };
  const writes: SeenRequest[] = [];
  for (const { name } of served().filter((each) => !each.name.includes('/'))) define(server, name);
  server.intercept = (request, stream) => {
    if (request.path === '/apis')
      return server.json(stream, { groups: [{ name: GROUP, versions: [{ version: 'v1' }] }] });
    if (request.path === API) return server.json(stream, { resources: served(control.kinds) });
    const [, root = '', namespace = '', ofNamespace, ofCluster, name = '', status] =
      /^(.*)\/(?:namespaces\/([^/]+)\/([^/]+)|(gatewayclasses))\/([^/]+)(\/status)?$/.exec(request.path) ?? [];
    const plural = ofNamespace ?? ofCluster ?? '';
    if (name === '') return false;
    if (request.method !== 'GET') writes.push(request);
    const refusal = control.refuse(request);
    if (refusal !== undefined) return server.fail(stream, ...refusal);
    return answer(server, `${root}/${plural}`, { namespace, name }, request, status !== undefined, stream);
  };
  server.set(`${API}/gatewayclasses`, { metadata: { name: 'meshd' }, spec: { controllerName: CONTROLLER } });
  return { server, writes, control };
}

type KindRow = readonly [plural: string, kind: string, namespaced: boolean];

export interface Control {
  /** The error that answers a request for an object instead. */
  refuse: (request: SeenRequest) => Refusal | undefined;
  /** Kinds beside those of all tests. */
  kinds: readonly KindRow[];
}

const KINDS: readonly KindRow[] = [
  ['gatewayclasses', 'GatewayClass', false],
  ['gateways', 'Gateway', true],
  ['httproutes', 'HTTPRoute', true],
];

const served = (more: readonly KindRow[] = []) =>
  [...KINDS, ...more].flatMap(([name, kind, namespaced]) => [
    { name, kind, namespaced, verbs: ['get', 'list', 'watch'] },
    { name: `${name}/status`, kind, namespaced, verbs: ['get'] },
  ]);

export const define = (server: ScriptedApiServer, plural: string, version?: string) => {
  const annotations = version === undefined ? {} : { [`${GROUP}/bundle-version`]: version };
  server.set(DEFINITIONS, { metadata: { name: `${plural}.${GROUP}`, annotations } });
};

function answer(
  server: ScriptedApiServer,
  collection: string,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  { method, body }: SeenRequest,
  isStatus: boolean,
  stream: ServerHttp2Stream,
): true {
  const present = server.find(collection, name, namespace);
  if (method === 'DELETE') {
    server.remove(collection, { name, namespace });
    return server.json(stream, { kind: 'Status' });
  }
  if (present === undefined && (method === 'GET' || isStatus)) return server.fail(stream, 404, 'NotFound');
  if (method === 'GET') return server.json(stream, present);
  const patch = JSON.parse(body) as Listed;
  if (isStatus && patch.metadata.resourceVersion !== present?.metadata.resourceVersion)
    return server.fail(stream, 409, 'Conflict');
  const status = { ...(present?.status as object | undefined), ...(patch.status as object | undefined) };
  const metadata = { ...present?.metadata, ...patch.metadata, name, namespace };
  server.set(collection, isStatus ? { ...present, metadata, status } : { ...present, ...patch, metadata });
  return server.json(stream, server.find(collection, name, namespace));
}
