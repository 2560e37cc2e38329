/**
 * Variables that users of Istio 1.7 know, under their names here, and that this version does not act on. Their values
 * are checked, and the program logs at its start those that ask for a missing feature. A variable moves to
 * `discovery-env.ts` or `agent-env.ts` when the program acts on it.
 *
 * Left out: POD_NAME and ORCH_SERVICE_HOST, which deployments always set, and in the agent's table the shared variables
 * that concern a control plane only.
 */

import { messageOf } from '../core/errors.ts';
import type { Environment } from './env-table.ts';
import { usageError } from './errors.ts';
import { parseBoolean, parseFloating } from './values.ts';

type Default = string | boolean | number;

/** Defaults by name. The type of the default is the type of the variable. */
type BooleansAndTexts = Readonly<Record<string, string | boolean>>;
type Numbers = Readonly<Record<string, { readonly default: number; readonly read: (text: string) => number }>>;

export interface UnservedVariables {
  readonly booleansAndTexts: BooleansAndTexts;
  readonly numbers: Numbers;
}

const BOOLEANS_AND_TEXTS: BooleansAndTexts = {
  BYPASS_OOP_MTLS_SAN_VERIFICATION: false,
  CTL_ENABLE_ANALYSIS: false,
  CTL_ENABLE_INCREMENTAL_MCP: false,
  CTL_ENABLE_KVSTORE_FILTER: false,
  CTL_ENABLE_RELDB_FILTER: false,
  CTL_ENABLE_STATUS: false,
  CTL_ENABLE_TCP_METADATA_EXCHANGE: true,
  CTL_ENABLE_THRIFT_FILTER: false,
  CTL_ENABLE_VIRTUAL_SERVICE_DELEGATE: false,
  MESH_LANG: '',
  MESH_METRICS_ANNOTATIONS: '',
  SECRET_WATCHER_RESYNC_PERIOD: '',
};
const NUMBERS: Numbers = {
  CTL_TRACE_SAMPLING: { default: 100, read: (text) => parseFloating(text, 0, 100) },
};

export const DISCOVERY_UNSERVED: UnservedVariables = { booleansAndTexts: BOOLEANS_AND_TEXTS, numbers: NUMBERS };

export const AGENT_UNSERVED: UnservedVariables = {
  booleansAndTexts: {
    SECRET_WATCHER_RESYNC_PERIOD: '',
  },
  numbers: {},
};

/**
 * The variables that are set to something else than their default, sorted by name. Throws a `CtlError` that names the
 * first one with an invalid value.
 */
export function unservedVariables({ booleansAndTexts, numbers }: UnservedVariables, env: Environment): string[] {
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
  for (const [name, defaultValue] of Object.entries(booleansAndTexts)) {
    check(name, defaultValue, typeof defaultValue === 'boolean' ? parseBoolean : String);
  }
  for (const [name, spec] of Object.entries(numbers)) check(name, spec.default, spec.read);
  return found.sort();
}
