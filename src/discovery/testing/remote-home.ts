/** The own cluster with Secrets for others, whose API servers are scripted, and a store with what is read of them. */
import type { TestContext } from 'node:test';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { Connection } from '../../kubernetes/index.ts';
import { fastClock } from '../../kubernetes/testing/fast-clock.ts';
import { ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { createKubernetesSource } from '../../sources/index.ts';
import { createStore } from '../../store/index.ts';
import { RemoteClusters } from '../clusters/remote-clusters.ts';
import { createSources } from '../config/sources.ts';

export const SECRETS = '/api/v1/secrets';
export const SERVICES = '/api/v1/services';
export const CORE = ['nodes', 'pods', 'services', 'serviceaccounts', 'endpoints'];

export const service = (name: string) => ({ metadata: { name, namespace: 'shop' }, spec: { ports: [{ port: 80 }] } });

interface SecretFields {
  readonly namespace?: string;
  readonly created?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

/** A Secret with kubeconfigs by ID of the cluster. */
export function secret(name: string, data: Readonly<Record<string, string>>, fields: SecretFields = {}) {
  const { namespace = 'mesh-system', created = '2026-01-01T00:00:00Z' } = fields;
  const { labels = { 'mesh.io/multiCluster': 'true' } } = fields;
  const encoded = Object.entries(data).map(([key, text]) => [key, Buffer.from(text).toString('base64')]);
  return { metadata: { name, namespace, labels, creationTimestamp: created }, data: Object.fromEntries(encoded) };
}

async function startServer(context: TestContext, collections: readonly string[]): Promise<ScriptedApiServer> {
  const server = await ScriptedApiServer.start();
  context.after(() => server.stop());
  for (const plural of collections) server.serve(`/api/v1/${plural}`);
  return server;
}

export const startRemote = (context: TestContext) => startServer(context, CORE);

/** The own cluster, whose Secrets are followed, and a store with what is read of the others. */
export async function openHome(context: TestContext, factor = 50, maxBytes = Number.POSITIVE_INFINITY) {
  const home = await startServer(context, ['secrets', 'services']);
  const clock = fastClock(factor);
  const random = () => 0;
  const lines: string[] = [];
  const note = (line: string): void => void lines.push(line);
  const log = { debug: () => {}, info: note, warn: note, error: note };
  const connection = new Connection({ access: home.access(), clock, random, userAgent: 'test' });
  const store = createStore({
    sources: [],
    cluster: 'home',
    appNamespaces: [],
    rootNamespace: 'mesh-system',
    onRefused: () => {},
    onResolved: () => {},
  });
  let delayed = 0;
  /** Every change of what is in force, in order: `+key` or `-key`. */
  const changes: string[] = [];
  const noteChanges = ({ changed }: { readonly changed: ReadonlySet<string> }): void => {
    for (const key of changed) changes.push(`${store.get(key) === undefined ? '-' : '+'}${key}`);
  };
  const sources = createSources([]);
  await sources.open({
    sinkOf: (source) => {
      store.add(source);
      return {
        apply: (events) => noteChanges(store.apply(source.id, events)),
        replace: (list) => noteChanges(store.replace(source.id, list)),
        changing: () => {},
      };
    },
    removed: ({ id }) => noteChanges(store.remove(id, clock.now())),
  });
  const remotes = new RemoteClusters({
    connection,
    namespace: 'mesh-system',
    cluster: 'home',
    sources,
    connect: (access) => new Connection({ access, clock, random, userAgent: 'test' }),
    createSource: (id, cluster, to, required) =>
      createKubernetesSource({
        id,
        cluster,
        connection: to,
        log,
        clock,
        resyncMs: 0,
        namespaces: [],
        useEndpointSlice: false,
        meshKinds: false,
        isRemote: true,
        required,
        maxBytes,
      }),
    onDelayed: (count) => {
      delayed += count;
    },
    clock,
    log,
  });
  context.after(async () => {
    await remotes.close();
    await sources.close();
    connection.close();
  });
  const has = (key: string): boolean => store.get(key) !== undefined;
  return { home, remotes, sources, lines, changes, has, delayed: () => delayed };
}

export function until(what: string, condition: () => boolean, lines: readonly string[] = []): Promise<void> {
  return waitUntil(condition, { what: () => `${what}; the log has ${lines.join('\n')}` });
}
