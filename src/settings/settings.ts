/**
 * Flags and environment variables as one typed object of settings. A flag that is given overrides the variable with the
 * same setting, which overrides the flag's default.
 */

import { agentEnv } from './agent/agent-env.ts';
import { agentProxyFlags } from './agent/agent-flags.ts';
import { discoveryEnv } from './discovery/discovery-env.ts';
import { discoveryFlags } from './discovery/discovery-flags.ts';
import { type Environment, type EnvTable, type EnvValues, envDefaults, readEnv } from './env-table.ts';
import { type FlagTable, type FlagValue, type FlagValues, settingName } from './flag-table.ts';
import type { ParsedFlags } from './parse-flags.ts';
import { defaultFlagValue } from './values.ts';

/** The settings of `ctl-discovery discovery`. Durations are milliseconds; `Infinity` means no limit. */
export type DiscoverySettings = FlagValues<typeof discoveryFlags> & EnvValues<typeof discoveryEnv>;

/** The settings of `ctl-agent proxy`. Durations are milliseconds. */
export type AgentSettings = FlagValues<typeof agentProxyFlags> & EnvValues<typeof agentEnv>;

/** The value of every flag of a table, given or default, by setting name. */
export function flagSettings<T extends FlagTable>(table: T, parsed: ParsedFlags): FlagValues<T> {
  return merge(flagDefaults(table), givenSettings(table, parsed)) as FlagValues<T>;
}

/** The settings of a table of flags and one of variables. Throws a `CtlError` that names an invalid variable. */
export function flagAndEnvSettings<F extends FlagTable, E extends EnvTable>(
  flags: F,
  parsed: ParsedFlags,
  variables: E,
  env: Environment,
): FlagValues<F> & EnvValues<E> {
  const layers = [flagDefaults(flags), envDefaults(variables), readEnv(variables, env), givenSettings(flags, parsed)];
  // Merging maps loses the names and types of the settings; the types of the tables have them.
  return merge(...layers) as FlagValues<F> & EnvValues<E>;
}

/** Every flag of a table with the value in force: durations in ms, no limit as `Infinity`. */
export function shownFlags(table: FlagTable, settings: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const shown = (value: unknown) => (value === Number.POSITIVE_INFINITY ? 'Infinity' : value);
  const values = Object.entries(table).map(([name, spec]) => [name, shown(settings[settingName(name, spec)])]);
  return Object.fromEntries(values);
}

function flagDefaults(table: FlagTable): ReadonlyMap<string, FlagValue> {
  return new Map(Object.entries(table).map(([name, spec]) => [settingName(name, spec), defaultFlagValue(spec)]));
}

function givenSettings(table: FlagTable, parsed: ParsedFlags): ReadonlyMap<string, FlagValue> {
  const values = new Map<string, FlagValue>();
  for (const [name, spec] of Object.entries(table)) {
    const value = parsed.given.get(name);
    if (value !== undefined) values.set(settingName(name, spec), value);
  }
  return values;
}

function merge(...layers: readonly ReadonlyMap<string, FlagValue>[]): unknown {
  return Object.fromEntries(layers.flatMap((layer) => [...layer]));
}

/** The default settings of `ctl-discovery discovery` with `changes`: for tests and benches. */
export function defaultDiscoverySettings(changes: Partial<DiscoverySettings> = {}): DiscoverySettings {
  return { ...flagAndEnvSettings(discoveryFlags, NOTHING_GIVEN, discoveryEnv, {}), ...changes };
}

/** The default settings of `ctl-agent proxy` with `changes`: for tests and benches. */
export function defaultAgentSettings(changes: Partial<AgentSettings> = {}): AgentSettings {
  return { ...flagAndEnvSettings(agentProxyFlags, NOTHING_GIVEN, agentEnv, {}), ...changes };
}

const NOTHING_GIVEN: ParsedFlags = { given: new Map(), positionals: [], help: false };
