/**
 * Variables that users of Istio 1.7 know, under their names here, and that this version does not act on. Their values
 * are checked, and the program logs at startup those that ask for a missing feature. A variable moves to
 * `discovery-env.ts` or `agent-env.ts` when the program acts on it.
 *
 * Left out: POD_NAME and ORCH_SERVICE_HOST, which deployments always set, and in the agent's table the shared variables
 * that concern a control plane only.
 */

import { messageOf } from '../core/errors.ts';
import type { Environment } from './env-table.ts';
import { usageError } from './errors.ts';
import { parseBoolean } from './values.ts';

type Default = string | boolean;

/** Defaults by name. The type of the default is the type of the variable. */
export type UnservedVariables = Readonly<Record<string, Default>>;

export const DISCOVERY_UNSERVED: UnservedVariables = {
  MESH_METRICS_ANNOTATIONS: '',
  SECRET_WATCHER_RESYNC_PERIOD: '',
};

export const AGENT_UNSERVED: UnservedVariables = {
  SECRET_WATCHER_RESYNC_PERIOD: '',
};

/** Why the program does not act on a variable that is not a missing feature. */
const REASONS: Readonly<Record<string, string>> = {
  SECRET_WATCHER_RESYNC_PERIOD: 'Secrets are watched, and nothing is polled',
};

/** The variables as a list for people, with reasons. */
export function describeUnserved(names: readonly string[]): string {
  return names.map((name) => (REASONS[name] === undefined ? name : `${name} (${REASONS[name]})`)).join(', ');
}

/**
 * The variables that are set to a value other than their default, sorted by name. Throws a `CtlError` that names the
 * first one with an invalid value.
 */
export function unservedVariables(variables: UnservedVariables, env: Environment): string[] {
  const found: string[] = [];
  const check = (name: string, defaultValue: Default, read: (text: string) => Default): void => {
    const text = env[name];
    if (text === undefined || text === '') return;
    try {
      if (read(text) !== defaultValue) found.push(name);
    } catch (error) {
      throw usageError(`invalid value ${JSON.stringify(text)} of variable ${name}: ${messageOf(error)}`);
    }
  };
  for (const [name, defaultValue] of Object.entries(variables)) {
    check(name, defaultValue, typeof defaultValue === 'boolean' ? parseBoolean : String);
  }
  return found.sort();
}
