/** The command tree of ctl-discovery. Only the command `discovery` loads the service: the others start quickly. */

import { closeLogging, getScope } from '../logging/index.ts';
import {
  DISCOVERY_UNSERVED,
  type DiscoverySettings,
  describeUnserved,
  dialAddress,
  discoveryCommonFlags,
  discoveryEnv,
  discoveryFlags,
  discoveryRequestFlags,
  discoveryVersionFlags,
  type Environment,
  flagAndEnvSettings,
  flagSettings,
  type ParsedFlags,
  unservedVariables,
} from '../settings/index.ts';
import { analyzeCommand } from './commands/analyze.ts';
import { bugReportCommand } from './commands/bug-report.ts';
import { completionCommand } from './commands/completion.ts';
import { dashboardCommand } from './commands/dashboard.ts';
import { diffCommand } from './commands/diff.ts';
import { distributionCommand } from './commands/distribution.ts';
import { envCommand } from './commands/env.ts';
import { getCommand } from './commands/get.ts';
import { injectCommand } from './commands/inject.ts';
import { issueTokenCommand } from './commands/issue-token.ts';
import { issueWorkloadCommand } from './commands/issue-workload.ts';
import { proxyConfigCommand } from './commands/proxy-config.ts';
import { proxyStatusCommand } from './commands/proxy-status.ts';
import { requestCommand } from './commands/request.ts';
import { validateCommand } from './commands/validate.ts';
import { versionCommand } from './commands/version.ts';
import { whyCommand } from './commands/why.ts';
import { debugCredential } from './debug-credential.ts';
import { startLogging } from './logging.ts';
import { type Command, command, type Program, type ProgramIo, runProgram } from './program.ts';

/** Runs the discovery service until it is asked to stop. Resolves with the exit code. */
export type RunDiscovery = (settings: DiscoverySettings, env: Environment) => Promise<number>;

const loadAndRun: RunDiscovery = async (settings, env) => {
  const { runDiscovery } = await import('../discovery/index.ts');
  return runDiscovery(settings, env);
};

export function discoveryProgram(runDiscovery: RunDiscovery = loadAndRun): Program {
  const program: Program = {
    name: 'ctl-discovery',
    summary: 'The discovery service of the mesh: configuration for every proxy over xDS.',
    flags: discoveryCommonFlags,
    commands: [
      analyzeCommand(),
      bugReportCommand(),
      completionCommand(() => program),
      dashboardCommand(),
      diffCommand(),
      discoveryCommand(runDiscovery),
      distributionCommand(),
      envCommand(discoveryCommonFlags, discoveryEnv),
      getCommand(),
      injectCommand(),
      issueTokenCommand(),
      issueWorkloadCommand(),
      proxyConfigCommand(),
      proxyStatusCommand(),
      requestCommand(discoveryRequestFlags, 'Make an HTTP request to the metrics and debug interface.', {
        baseFor: requestBase,
        headersFor: debugCredential,
      }),
      validateCommand(),
      versionCommand(discoveryVersionFlags),
      whyCommand(),
    ],
  };
  return program;
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
        getScope('default').warn(`this version does not support these variables: ${describeUnserved(unserved)}`);
      }
      try {
        return await runDiscovery(settings, io.env);
      } finally {
        closeLogging();
      }
    },
  });
}

/** The base URL for a path: metrics are on the monitoring address, all other pages on the HTTP address. */
export function requestBase(path: string, parsed: ParsedFlags): string {
  const { monitoringAddr, httpAddr } = flagSettings(discoveryRequestFlags, parsed);
  return `http://${dialAddress(/^\/metrics(?:$|[/?])/.test(path) ? monitoringAddr : httpAddr)}`;
}

/** Runs `ctl-discovery` with the arguments after its name. Resolves with the exit code. */
export function runCtlDiscovery(args: readonly string[], io: ProgramIo): Promise<number> {
  return runProgram(discoveryProgram(), args, io);
}
