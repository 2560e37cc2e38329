/**
 * Merges the Telemetry documents of a workload, from the widest scope to the narrowest: a narrower document overrides
 * the settings that it contains.
 */
import type { OwnTracing } from '../../../core/tracing.ts';
import type { MeshConfig, TelemetrySpec } from '../../../resources/index.ts';
import type { EnvoyView } from '../../views.ts';

/** On which side of a request the proxy is. */
export type Direction = 'CLIENT' | 'SERVER';

interface Matching {
  readonly match?: { readonly mode?: Direction | 'CLIENT_AND_SERVER' | undefined } | undefined;
}

/** Gateways are clients of the services behind them. */
export function directionOf({ part }: EnvoyView): Direction {
  return part === 'inbound' ? 'SERVER' : 'CLIENT';
}

export function concerns(direction: Direction, { match }: Matching): boolean {
  const { mode = 'CLIENT_AND_SERVER' } = match ?? {};
  return mode === 'CLIENT_AND_SERVER' || mode === direction;
}

export interface AskedSpans {
  /** Whether a document has settings for spans of this direction. */
  readonly written: boolean;
  readonly disabled: boolean;
  /** Absent: the tracer of Envoy's bootstrap. */
  readonly provider?: string | undefined;
  readonly sampling?: number | undefined;
  readonly customTags?: OwnTracing['customTags'];
  readonly enableIstioTags?: boolean | undefined;
  readonly propagates?: false | undefined;
  readonly requestIdDecides?: boolean | undefined;
}

/** Envoy has one tracer for a listener: only the first provider is used. */
export function spansOf(mesh: MeshConfig, documents: readonly TelemetrySpec[], direction: Direction): AskedSpans {
  let asked: AskedSpans = { written: false, disabled: false, provider: mesh.defaultProviders.tracing?.[0] };
  for (const { tracing = [] } of documents) {
    for (const entry of tracing) {
      if (!concerns(direction, entry)) continue;
      const { providers, randomSamplingPercentage, disableSpanReporting, disableContextPropagation } = entry;
      asked = {
        written: true,
        disabled: disableSpanReporting ?? asked.disabled,
        provider: providers?.[0]?.name ?? asked.provider,
        sampling: randomSamplingPercentage ?? asked.sampling,
        customTags: entry.customTags ?? asked.customTags,
        enableIstioTags: entry.enableIstioTags ?? asked.enableIstioTags,
        requestIdDecides: entry.useRequestIdForTraceSampling ?? asked.requestIdDecides,
        propagates:
          disableContextPropagation === undefined ? asked.propagates : disableContextPropagation ? false : undefined,
      };
    }
  }
  return asked;
}

export interface AskedLogger {
  /** Absent for the settings of the mesh configuration without providers. */
  readonly provider?: string;
  /** An expression of CEL. */
  readonly only?: string;
}

export function loggersOf(
  mesh: MeshConfig,
  documents: readonly TelemetrySpec[],
  direction: Direction,
): readonly AskedLogger[] {
  const names = mesh.defaultProviders.accessLogging ?? [];
  const defaults: readonly AskedLogger[] = names.length === 0 ? [{}] : names.map((provider) => ({ provider }));
  let loggers = defaults;
  for (const { accessLogging = [] } of documents) {
    const entries = accessLogging.filter((entry) => concerns(direction, entry));
    // Entries with providers replace all entries of wider scopes.
    const replaces = entries.some(({ providers = [], disabled }) => providers.length > 0 && disabled !== true);
    loggers = entries.reduce((list, entry) => after(list, entry, defaults), replaces ? [] : loggers);
  }
  return loggers;
}

type LoggingEntry = NonNullable<TelemetrySpec['accessLogging']>[number];

/** The loggers after an entry, which applies to all of them if it has no providers. */
function after(
  loggers: readonly AskedLogger[],
  { providers = [], disabled, filter }: LoggingEntry,
  defaults: readonly AskedLogger[],
): readonly AskedLogger[] {
  const named = providers.map(({ name }) => name);
  const others = loggers.filter(({ provider }) => provider === undefined || !named.includes(provider));
  if (disabled === true) return named.length === 0 ? [] : others;
  const only = filter?.expression ? { only: filter.expression } : {};
  if (named.length > 0) return [...others, ...named.map((provider) => ({ provider, ...only }))];
  const all = loggers.length === 0 ? defaults : loggers;
  return all.map(({ provider }) => ({ ...(provider !== undefined && { provider }), ...only }));
}
