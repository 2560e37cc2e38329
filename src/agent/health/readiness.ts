/**
 * Readiness of the proxy. It is ready when Envoy is LIVE, has acknowledged its first clusters and listeners, and has
 * the required listeners: those for redirected connections if there is redirection, else any one of those that it was
 * sent. A single refused listener (a port of a Gateway that is in use) does not make a proxy unready: the others serve,
 * and one bad resource must not keep all replicas out of service. Envoy's log names it.
 *
 * The conditions are read from Envoy's admin interface until they hold; from then on only Envoy's own `/ready` is
 * requested, which is cheap.
 */
import { messageOf } from '../../core/errors.ts';
import { isObject } from '../../core/objects.ts';

/** Names of counters: Envoy's documentation, "Cluster manager" and "Listener manager" statistics. */
const CLUSTERS = 'cluster_manager.cds.update_success';
const LISTENERS = 'listener_manager.lds.update_success';
const REJECTED = 'listener_manager.lds.update_rejected';
const ACKNOWLEDGED = `^(${CLUSTERS}|${LISTENERS}|${REJECTED})$`;
export const ACKNOWLEDGED_STATS = `/stats?usedonly&filter=${encodeURIComponent(ACKNOWLEDGED)}`;

/**
 * The mask leaves out the listeners themselves, which may be megabytes. Envoy's documentation, "Administration
 * interface", `/config_dump`.
 */
const DUMP = '/config_dump?resource=dynamic_listeners&mask=name,active_state.version_info,warming_state.version_info';

/** The result is cached, so that several probers, or a frequent one, do not cause one request to Envoy per probe. */
const CACHE_MS = 250;

export interface ReadinessDeps {
  /** Sends GET to Envoy's admin interface, with a time limit. */
  readonly admin: (path: string) => Promise<{ readonly status: number; readonly text: string }>;
  /** Names of required listeners; none without redirection. */
  readonly needed: readonly string[];
  /** What the required listeners need from the machine, to explain a rejection; '' if nothing in particular. */
  readonly requirement: string;
  /** Envoy's messages by the names of the listeners that it has refused. */
  readonly refused: () => ReadonlyMap<string, string>;
  /** Why another part of the agent is not ready; undefined when all are. */
  readonly others: () => string | undefined;
  /** What Envoy waits for while it is not ready; undefined if the agent knows of nothing. */
  readonly awaited: () => string | undefined;
  /** Milliseconds on a clock that only goes forward. */
  readonly now: () => number;
}

export interface Readiness {
  /** Undefined when ready; otherwise the reason. */
  check(): Promise<string | undefined>;
  /** Whether this Envoy is or was ready, and so may have connections. Never rejects. */
  hasServed(): Promise<boolean>;
  /** Resets the state for a new Envoy. */
  restarted(): void;
  /** From now on, the proxy is not ready. */
  draining(): void;
}

export function createReadiness(deps: ReadinessDeps): Readiness {
  const { admin, others, awaited, now } = deps;
  let complete = false;
  let draining = false;
  let run = 0;
  let last: { readonly at: number; readonly answer: Promise<string | undefined> } | undefined;

  const ask = async (): Promise<string | undefined> => {
    const ready = await admin('/ready');
    if (ready.status !== 200) return `Envoy is ${ready.text.trim() || 'not live'}`;
    if (complete) return undefined;
    const askedRun = run;
    const missing = await whatIsMissing(deps);
    if (missing === undefined && askedRun === run) complete = true;
    return missing;
  };
  const answer = (): Promise<string | undefined> => {
    if (last === undefined || now() - last.at >= CACHE_MS) {
      const asked = ask().catch((error: unknown) => `Envoy does not respond: ${messageOf(error)}`);
      last = { at: now(), answer: asked };
    }
    return last.answer;
  };

  return {
    async check() {
      if (draining) return 'draining';
      const ofEnvoy = await answer();
      if (draining) return 'draining';
      if (ofEnvoy === undefined) return others();
      const cause = awaited();
      return cause === undefined ? ofEnvoy : `${cause} (${ofEnvoy})`;
    },
    async hasServed() {
      if (!complete) await answer();
      return complete;
    },
    restarted() {
      run++;
      complete = false;
      last = undefined;
    },
    draining() {
      draining = true;
    },
  };
}

async function whatIsMissing({ admin, needed, requirement, refused }: ReadinessDeps): Promise<string | undefined> {
  const stats = (await admin(ACKNOWLEDGED_STATS)).text.split('\n');
  const has = (name: string) => stats.some((line) => line.startsWith(`${name}: `) && !line.endsWith(': 0'));
  if (!has(CLUSTERS)) return 'no clusters have been acknowledged yet';
  const rejected = has(REJECTED);
  if (!has(LISTENERS)) return rejected ? refusal(refused()) : 'no listeners have been acknowledged yet';
  if (needed.length > 0) {
    const states = parseListenerStates(
      (await admin(`${DUMP}&name_regex=${encodeURIComponent(`^(${needed.join('|')})$`)}`)).text,
    );
    const why = missingListener(needed, states, refused());
    return why?.refused === true && requirement !== '' ? `${why.text} (${requirement})` : why?.text;
  }
  // With many listeners the response may be cut; it still shows whether there is one.
  return !rejected || (await admin(DUMP)).text.includes('"active_state"') ? undefined : refusal(refused());
}

function missingListener(
  needed: readonly string[],
  states: ReadonlyMap<string, 'active' | 'warming'>,
  refused: ReadonlyMap<string, string>,
): { readonly text: string; readonly refused: boolean } | undefined {
  const name = needed.find((each) => states.get(each) !== 'active');
  if (name === undefined) return undefined;
  if (states.has(name)) return { text: `the listener ${name} is warming`, refused: false };
  const what = `the listener ${name}, which accepts redirected connections`;
  const words = refused.get(name);
  if (words === undefined) return { text: `${what}, is missing`, refused: false };
  return { text: `Envoy has rejected ${what}: ${words}`, refused: true };
}

/** The reason of an Envoy that has rejected all listeners. */
function refusal(refused: ReadonlyMap<string, string>): string {
  const [first] = refused;
  if (first === undefined)
    return 'Envoy has rejected its listeners; its log has the reason if --proxyLogLevel is warning or more verbose';
  return `Envoy has rejected its listeners: ${first[0]}: ${first[1]}`;
}

/** The state of each listener of which the dump has an accepted version. */
function parseListenerStates(text: string): ReadonlyMap<string, 'active' | 'warming'> {
  const dump: unknown = JSON.parse(text);
  const configs = isObject(dump) && Array.isArray(dump.configs) ? dump.configs : [];
  const states = new Map<string, 'active' | 'warming'>();
  for (const each of configs) {
    if (!isObject(each) || typeof each.name !== 'string') continue;
    if (each.active_state !== undefined) states.set(each.name, 'active');
    else if (each.warming_state !== undefined) states.set(each.name, 'warming');
  }
  return states;
}

/**
 * Readiness of an agent without an Envoy (DISABLE_ENVOY): it is ready when applications can use the xDS proxy and the
 * certificate files. Applications themselves report whether they have received their configuration.
 *
 * @param missing why a part of the agent is not ready; undefined when all are
 */
export function createOwnReadiness(missing: () => string | undefined): Readiness {
  let draining = false;
  let served = false;
  return {
    async check() {
      const why = draining ? 'draining' : missing();
      if (why === undefined) served = true;
      return why;
    },
    hasServed: async () => served || missing() === undefined,
    restarted: () => undefined,
    draining() {
      draining = true;
    },
  };
}
