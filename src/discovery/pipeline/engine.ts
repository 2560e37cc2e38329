/** The push engine, which follows the published snapshots, and when changes of the store become a snapshot. */
import { systemClock } from '../../core/clock.ts';
import { getScope } from '../../logging/index.ts';
import { changedEndpoints, type Model } from '../../model/index.ts';
import type { Metrics } from '../../observe/index.ts';
import { Engine, type Generator } from '../../push/index.ts';
import type { ResourceKey } from '../../resources/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import { createDebouncer, type Debouncer } from '../../store/index.ts';
import { concernedNames, leadsTo } from '../../xds/index.ts';
import { FindingLog, findingsOf } from './finding-log.ts';
import type { Intake } from './intake.ts';
import { debounceHooks, engineObserver } from './observers.ts';
import type { Publisher } from './publisher.ts';
import { PushLog } from './push-log.ts';
import type { RecentActivity } from './recent-activity.ts';

/**
 * Starts with the snapshot of the model, and pushes the changes of later snapshots to the proxies that they concern.
 */
export function startEngine(
  { pushThrottle: throttle, pushCanary }: DiscoverySettings,
  metrics: Metrics,
  model: Model,
  publisher: Publisher,
  generator: Generator,
  recent: RecentActivity,
): Engine {
  const { snapshot } = model;
  const { now, setTimer: later } = systemClock;
  const pushes = new PushLog({ write: (line) => getScope('ads').info(line), later });
  const findings = new FindingLog({ findings: () => findingsOf(engine), log: getScope('model'), later });
  const engine = new Engine({
    snapshot,
    scopes: model,
    generator,
    throttle,
    concerned: concernedNames,
    leadsTo,
    canaryAbove: pushCanary < 0 ? Number.POSITIVE_INFINITY : pushCanary,
    now,
    later,
    random: Math.random,
    observer: recent.besideEngine(engineObserver(metrics, pushes, () => findings.generated())),
  });
  publisher.onPublication(recent.published);
  publisher.onPublication((publication) => {
    pushes.changed(publication.resources.map(({ key }) => key));
    engine.publish(publication);
  });
  return engine;
}

/** Publishes the changes of the intake after a quiet period, as soon as it follows the intake. */
export function startDebouncer(
  { debounceAfterMs, debounceMaxMs, enableEdsDebounce }: DiscoverySettings,
  metrics: Metrics,
  intake: Intake,
  publisher: Publisher,
): Debouncer {
  return createDebouncer({
    afterMs: debounceAfterMs,
    maxMs: debounceMaxMs,
    edsDebounce: enableEdsDebounce,
    clock: systemClock,
    hooks: debounceHooks(metrics),
    endpointsOf: (key) => changedEndpoints(intake.store.pending(key)),
    busyMs: () => performance.eventLoopUtilization().active,
    publish: (keys, stopped) => publishChanges(intake, publisher, keys, stopped),
  });
}

/** Batches of sources that are waited for before changes are taken: some source may always be applying one. */
const MAX_BATCHES = 10;
/** No further batch is waited for after this time, ms: batches may be large. */
const MAX_WAIT_MS = 500;

/**
 * Publishes changes of the intake between its batches, unless it is stopped before.
 *
 * @param now monotonic ms
 */
export async function publishChanges(
  intake: Pick<Intake, 'complete' | 'take'>,
  publisher: Pick<Publisher, 'publishInSlices'>,
  keys: ReadonlySet<ResourceKey> | 'all',
  stopped: AbortSignal,
  now = systemClock.now,
): Promise<void> {
  const until = now() + MAX_WAIT_MS;
  for (let batches = 0; batches < MAX_BATCHES && now() < until; batches++) {
    const completed = intake.complete();
    if (completed === undefined) break;
    // Another batch may begin meanwhile.
    await completed;
  }
  if (stopped.aborted) return;
  await publisher.publishInSlices(intake.take(keys === 'all' ? undefined : (key) => keys.has(key)), stopped);
}
