/**
 * Detects a kubeconfig that is configured for another cluster but connects to the program's own cluster: each endpoint
 * would count twice. Every cluster has the Service `default/kubernetes`, which its API server creates; if it has the
 * same UID, both are the same cluster.
 */
import type { Clock } from '../../core/clock.ts';
import { type Connection, KubernetesClient } from '../../kubernetes/index.ts';
import type { ResourceEvent, ResourceList } from '../../resources/index.ts';
import {
  createStagedSink,
  replaceInSlices,
  type Source,
  type SourceHealth,
  type SourceSink,
} from '../../sources/index.ts';

const [NAMESPACE, NAME] = ['default', 'kubernetes'] as const;
/** A list, because only lists of Services are permitted. */
const PATH = `/api/v1/namespaces/${NAMESPACE}/services?fieldSelector=metadata.name%3D${NAME}`;
/** Short, because the API server has just responded. */
const TIMEOUT_MS = 10_000;

/** The UID of the local cluster's Service; undefined where there is none. Rejects as requests of the client do. */
export async function ownUid(connection: Connection, signal: AbortSignal): Promise<string | undefined> {
  const request = { method: 'GET', path: PATH, timeoutMs: TIMEOUT_MS, signal } as const;
  const list = (await new KubernetesClient(connection).json(request)) as {
    readonly items?: readonly { readonly metadata?: { readonly uid?: unknown } }[] | undefined;
  };
  const uid = list.items?.[0]?.metadata?.uid;
  return typeof uid === 'string' ? uid : undefined;
}

export interface OwnClusterCheck {
  /** See {@link ownUid}. */
  readonly uid: string;
  readonly clock: Clock;
  /** Called once when the source turns out to read the local cluster. Returns the reason for its health. */
  readonly onOwn: () => string;
}

/**
 * The source, which ends without any event if it reads the local cluster: it is never synced then. Nothing is sent
 * before it has listed Services.
 */
export function refusingOwn(source: Source, { uid, clock, onOwn }: OwnClusterCheck): Source {
  let refused: string | undefined;
  let closing: Promise<void> | undefined;
  let release = (): void => {};
  const close = (): Promise<void> => {
    closing ??= source.close();
    return closing;
  };
  const isOwn = (event: ResourceEvent): boolean => {
    if (event.type !== 'set' || event.resource.kind !== 'Service') return false;
    const { meta, origin } = event.resource;
    return meta.namespace === NAMESPACE && meta.name === NAME && origin.uid === uid;
  };
  const checked = (sink: SourceSink): SourceSink => {
    const staged = createStagedSink();
    release = () => {
      release = () => {};
      staged.release(sink, clock.now());
    };
    /** Whether the events are passed on. */
    const accepts = (events: readonly ResourceEvent[]): boolean => {
      if (refused === undefined && events.some(isOwn)) {
        refused = onOwn();
        // Services of another namespace can have been listed before.
        sink.replace({ events: [], eventTime: clock.now() });
        // Closing has no errors of its own; the owner closes it again and sees them.
        close().catch(() => {});
      }
      return refused === undefined;
    };
    return {
      apply: (events, seenAt) => {
        if (accepts(events)) staged.apply(events, seenAt);
      },
      replace: (list: ResourceList, seenAt) => {
        if (!accepts(list.events)) return;
        staged.replace(list, seenAt);
        if (list.kinds?.includes('Service') !== false) release();
      },
      replaceInSlices: (list, seenAt) => {
        if (!accepts(list.events)) return undefined;
        const applied = replaceInSlices(staged, list, seenAt);
        if (list.kinds?.includes('Service') !== false) release();
        return applied;
      },
      changing: (at) => staged.changing(at),
    };
  };
  return {
    id: source.id,
    cluster: source.cluster,
    synced: source.synced.then(async () => {
      if (refused !== undefined) await new Promise<never>(() => {});
      // Services may be forbidden, so that there is no list of them.
      release();
    }),
    start: (sink) => source.start(checked(sink)),
    health: (): SourceHealth => (refused === undefined ? source.health() : { ok: false, reason: refused }),
    close,
  };
}
