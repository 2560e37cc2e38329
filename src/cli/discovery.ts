/**
 * The command tree of ctl-discovery. What `discovery` starts is loaded when it is started, so that the rest is quick.
 */

import { closeLogging, getScope } from '../observe/logging.ts';
import { envCommand } from './commands/env.ts';
import { getCommand } from './commands/get.ts';
import { issueTokenCommand } from './commands/issue-token.ts';
import { requestCommand } from './commands/request.ts';
import { versionCommand } from './commands/version.ts';
import { startLogging } from './common-flags.ts';
import { debugCredential } from './debug-credential.ts';
import { discoveryEnv } from './discovery-env.ts';
import {
  discoveryCommonFlags,
  discoveryFlags,
  discoveryRequestFlags,
  discoveryVersionFlags,
} from './discovery-flags.ts';
import type { Environment } from './env-table.ts';
import { dialAddress } from './listen-address.ts';
import type { ParsedFlags } from './parse-flags.ts';
import { type Command, command, type Program, type ProgramIo } from './program.ts';
import { type DiscoverySettings, flagAndEnvSettings, flagSettings } from './settings.ts';
import { DISCOVERY_UNSERVED, unservedVariables } from './unserved-env.ts';

/** Runs the discovery service until it is told to stop; gives the exit code. */
export type RunDiscovery = (settings: DiscoverySettings, env: Environment, io: ProgramIo) => Promise<number>;

const loadAndRun: RunDiscovery = async (settings, env, io) => {
  const { runDiscovery } = await import('../discovery/index.ts');
  return runDiscovery(settings, env, io);
};

export function discoveryProgram(runDiscovery: RunDiscovery = loadAndRun): Program {
  return {
    name: 'ctl-discovery',
    summary: 'The discovery service of the mesh: configuration for every proxy over xDS.',
    flags: discoveryCommonFlags,
    commands: [
      discoveryCommand(runDiscovery),
      envCommand(discoveryCommonFlags, discoveryEnv),
      getCommand(),
      issueTokenCommand(),
      requestCommand(discoveryRequestFlags, 'Make an HTTP request to the metrics and debug interface.', {
        baseFor: requestBase,
        headersFor: debugCredential,
      }),
      versionCommand(discoveryVersionFlags),
    ],
  };
}

function discoveryCommand(runDiscovery: RunDiscovery): Command {
  return command({
    name: 'discovery',
    summary: 'Start the discovery service.',
    flags: discoveryFlags,
    async run({ flags, io }) {
      const settings = flagAndEnvSettings(discoveryFlags, flags, discoveryEnv, io.env);
      const unserved = unservedVariables(DISCOVERY_UNSERVED, io.env);
      startLogging(settings, 'ctl-discovery');
      if (unserved.length > 0) {
        getScope('default').warn(`this version does not act on these variables: ${unserved.join(', ')}`);
      }
      try {
        return await runDiscovery(settings, io.env, io);
      } finally {
        closeLogging();
      }
    },
  });
}

/** Metrics are on the monitoring address, everything else on the debug interface. */
export function requestBase(path: string, parsed: ParsedFlags): string {
  const { monitoringAddr, httpAddr } = flagSettings(discoveryRequestFlags, parsed);
  return `http://${dialAddress(/^\/metrics(?:$|[/?])/.test(path) ? monitoringAddr : httpAddr)}`;
}
