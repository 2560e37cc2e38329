/** Previews of changes, on the stations of the program. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { systemClock } from '../../core/clock.ts';
import type { Model } from '../../model/index.ts';
import { Previews } from '../../preview/index.ts';
import type { Engine, Previewer } from '../../push/index.ts';
import { type AnyResource, documentLimits, type ResourceChange } from '../../resources/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import { OWN_CLUSTER_SOURCE } from '../../sources/index.ts';
import type { Intake } from './intake.ts';
import { isTranslated } from './translation.ts';

export interface PreviewInputs {
  readonly settings: DiscoverySettings;
  readonly model: Model;
  readonly engine: Engine;
  readonly previewer: Previewer;
  readonly intake: Intake;
}

export function createPreviews({ settings, model, engine, previewer, intake }: PreviewInputs): Previews {
  const isDirectory = settings.configDir !== '';
  const [first] = intake.sources.all;
  return new Previews({
    model,
    engine,
    previewer,
    store: intake.store,
    target: {
      source: isDirectory
        ? 'directory'
        : ((intake.sources.all.find(({ id }) => id === OWN_CLUSTER_SOURCE) ?? first)?.id ?? ''),
      isDirectory,
      limits: documentLimits(settings.documentLimitFactor, settings.virtualServiceDelegates),
      rootNamespace: model.snapshot.settings.rootNamespace,
      now: Date.now,
    },
    translated: withoutTranslated,
    now: systemClock.now,
    later: (ms, run) => void setTimeout(run, ms).unref(),
    nextTurn,
  });
}

/** A warning about what a document would do, for a dry run; undefined where it does nothing or is not known soon. */
export async function effectOf(previews: Previews, document: AnyResource): Promise<string | undefined> {
  // A document that cannot be applied has its reason in the answer of `diff`.
  const proxies = await previews.touchedBy(document).catch(() => undefined);
  if (proxies === undefined || proxies === 0) return undefined;
  return `touches ${proxies === 1 ? '1 proxy' : `${proxies} proxies`}; "ctl-discovery diff" shows how`;
}

/** Documents of other APIs are checked only: what is derived from them depends on all documents of their API. */
function withoutTranslated(changes: readonly ResourceChange[]) {
  const own = changes.filter(({ key }) => !isTranslated(key));
  const left = changes.length - own.length;
  const notes =
    left === 0
      ? []
      : [`${left} documents of the Gateway API or of Ingress are checked, and their effect is not computed`];
  return { changes: own, notes };
}
