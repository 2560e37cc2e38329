/**
 * The key sets of token issuers. The published RequestAuthentications refer to key sets, which the JWKS resolver
 * fetches. Fetched key sets become events of a source named `jwks` and are debounced like other events. Only the start
 * waits for them, with a limit.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../../core/clock.ts';
import { wallClock } from '../../core/wall-clock.ts';
import { getScope } from '../../logging/index.ts';
import type { ModelChange, Snapshot } from '../../model/index.ts';
import type { Metrics } from '../../observe/index.ts';
import { keySetKey, keySetReference, makeKeySet, type ResourceEvent } from '../../resources/index.ts';
import { createKeySetResolver, guardedFetch } from '../../security/index.ts';
import { countedFetch } from '../process/outgoing.ts';

/**
 * How long the start waits for the first attempts, ms. Running Envoys have keys from before a restart. Without keys in
 * the first push they would refuse valid tokens until the keys arrive.
 */
const FIRST_KEYS_MS = 3000;

export interface KeySetOptions {
  readonly refreshMs: number;
  readonly metrics: Metrics;
  readonly onEvent: (event: ResourceEvent) => void;
}

export interface KeySets {
  /** Called with each publication: a changed RequestAuthentication changes the fetched key sets. */
  published(publication: Pick<ModelChange, 'snapshot' | 'resources'>): void;
  /** Resolves when every key set has been tried once, or after a limit. */
  first(): Promise<void>;
  close(): void;
}

/** The references of all key sets that the policies of the snapshot need. */
export function wantedKeySets(snapshot: Pick<Snapshot, 'resources'>): Set<string> {
  const wanted = new Set<string>();
  for (const { content } of snapshot.resources('RequestAuthentication').values()) {
    for (const rule of content.jwtRules ?? []) {
      const reference = keySetReference(rule);
      if (reference !== undefined) wanted.add(reference);
    }
  }
  return wanted;
}

export function followKeySets({ refreshMs, metrics, onEvent }: KeySetOptions): KeySets {
  const log = getScope('authn');
  let tried: Promise<void> = Promise.resolve();
  const resolver = createKeySetResolver({
    fetch: countedFetch(guardedFetch(), metrics, systemClock.now),
    clock: wallClock,
    random: Math.random,
    refreshMs,
    onKeySet: (reference, jwks) => {
      const eventTime = systemClock.now();
      if (jwks === undefined) onEvent({ type: 'delete', key: keySetKey(reference), eventTime });
      else onEvent({ type: 'set', resource: makeKeySet(reference, jwks), eventTime });
    },
    onProblem: (error, known) => {
      const meanwhile = known
        ? 'the last good keys remain in use'
        : "the issuer's tokens are refused until its keys are known";
      log.error(`keys of a token issuer: ${error.oneLine()}; ${meanwhile}`);
    },
    onRecovered: (shown) => log.info(`keys of a token issuer: ${shown} can be fetched again`),
    observer: {
      fetched: (ok) => {
        if (ok) metrics.ctl_jwks_resolver_network_fetch_success_total.inc();
        else metrics.ctl_jwks_resolver_network_fetch_fail_total.inc();
      },
    },
  });
  return {
    published: ({ snapshot, resources }) => {
      if (!resources.some(({ key }) => key.startsWith('RequestAuthentication/'))) return;
      tried = resolver.want(wantedKeySets(snapshot));
    },
    first: async () => {
      const waiting = new AbortController();
      const enough = sleep(FIRST_KEYS_MS, undefined, { signal: waiting.signal }).catch(() => {});
      await Promise.race([tried, enough]);
      waiting.abort();
    },
    close: () => resolver.close(),
  };
}
