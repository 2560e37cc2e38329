/** A scripted API server with kinds of the mesh, and the source that reads it, with a store behind it. */
import { Connection, type ResourceType } from '../../../kubernetes/index.ts';
import { fastClock } from '../../../kubernetes/testing/fast-clock.ts';
import { DEFINITIONS, ScriptedApiServer } from '../../../kubernetes/testing/scripted-api-server.ts';
import { keyOf, type ResourceList, type ResourceProblem } from '../../../resources/index.ts';
import { createStore } from '../../../store/index.ts';
import { createKubernetesSource, type KubernetesSourceOptions } from '../kubernetes.ts';

export const SERVICES = '/api/v1/services';
export const CORE = ['namespaces', 'nodes', 'pods', 'services', 'serviceaccounts', 'endpoints'];

export const meshType = (kind: string, plural: string, group = 'networking.mesh.io', version = 'v1'): ResourceType => ({
  group,
  version,
  plural,
  kind,
  namespaced: true,
});
export const ROUTES = meshType('VirtualService', 'virtualservices');
export const ISTIO_ROUTES = meshType('VirtualService', 'virtualservices', 'networking.istio.io', 'v1beta1');
export const POLICIES = meshType('AuthorizationPolicy', 'authorizationpolicies', 'security.mesh.io');

const cleanup: (() => Promise<void> | void)[] = [];

/** Ends the servers and sources of a test. */
export async function closeAll(): Promise<void> {
  for (const close of cleanup.splice(0).reverse()) await close();
}

/** A server with Kubernetes' own kinds and the definitions of these. */
export async function scripted(...types: readonly ResourceType[]): Promise<ScriptedApiServer> {
  const server = await ScriptedApiServer.start();
  cleanup.push(() => server.stop());
  for (const plural of CORE) server.serve(`/api/v1/${plural}`);
  server.serve('/apis/discovery.k8s.io/v1/endpointslices');
  server.serve(DEFINITIONS);
  for (const type of types) server.define(type);
  return server;
}

/**
 * The source with a store behind it.
 *
 * @param slices applies a list with its second parameter, now or later; default: now
 */
export function follow(
  server: ScriptedApiServer,
  options: Partial<KubernetesSourceOptions> = {},
  slices?: (list: ResourceList, replace: () => void) => Promise<void> | undefined,
) {
  const lines: string[] = [];
  const note = (message: string): void => void lines.push(message);
  const lists: string[] = [];
  const clock = fastClock(50);
  const connection = new Connection({ access: server.access(), clock, random: () => 0, userAgent: 'test' });
  cleanup.push(() => connection.close());
  const source = createKubernetesSource({
    cluster: 'here',
    connection,
    log: { debug: () => {}, info: note, warn: note, error: note },
    clock,
    resyncMs: 60_000,
    namespaces: [],
    useEndpointSlice: false,
    meshKinds: true,
    ...options,
  });
  const keys = new Set<string>();
  const refused: ResourceProblem[] = [];
  const store = createStore({
    sources: [source],
    cluster: 'here',
    appNamespaces: [],
    rootNamespace: 'mesh-system',
    onRefused: (_source, problem) => void refused.push(problem),
    onResolved: () => {},
  });
  let synced = false;
  /** Keys of documents that were set, once for each time, beside lists. */
  const sets: string[] = [];
  const replace = (list: ResourceList): void => {
    lists.push(`${list.kinds?.join()}${list.namespace === undefined ? '' : ` in ${list.namespace}`}`);
    for (const key of store.replace(source.id, list).changed) keys.add(key);
  };
  source.start({
    apply: (events) => {
      for (const event of events) if (event.type === 'set') sets.push(keyOf(event.resource));
      for (const key of store.apply(source.id, events).changed) keys.add(key);
    },
    replace,
    ...(slices !== undefined && { replaceInSlices: (list) => slices(list, () => replace(list)) }),
    changing: () => {},
  });
  source.synced.then(() => {
    synced = true;
  });
  cleanup.push(() => source.close());
  const inForce = () => [...keys].filter((key) => store.get(key) !== undefined).sort();
  /** Keys that changed, in the order of their first change. */
  const changed = () => [...keys];
  return { source, store, lines, lists, refused, inForce, sets, changed, isSynced: () => synced };
}

export const service = (name: string, namespace = 'shop') => ({
  metadata: { name, namespace },
  spec: { clusterIP: '10.0.0.1', ports: [{ name: 'http', port: 80 }] },
});
export const route = (name: string, host = 'web', namespace = 'shop') => ({
  metadata: { name, namespace, managedFields: [{ manager: 'x' }] },
  spec: { hosts: [host], http: [{ route: [{ destination: { host } }] }] },
});
export const pathOf = ({ group, version, plural }: ResourceType): string => `/apis/${group}/${version}/${plural}`;
