/** The command tree of ctl-agent. */

import { agentCommonFlags, agentEnv, agentVersionFlags, meshIptablesEnv } from '../settings/index.ts';
import { envCommand } from './commands/env.ts';
import { meshCleanIptablesCommand } from './commands/mesh-clean-iptables.ts';
import { meshIptablesCommand } from './commands/mesh-iptables.ts';
import { proxyCommand } from './commands/proxy.ts';
import { requestCommand } from './commands/request.ts';
import { versionCommand } from './commands/version.ts';
import { waitCommand } from './commands/wait.ts';
import { type Program, type ProgramIo, runProgram } from './program.ts';

/** The admin interface of Envoy. */
const ADMIN_URL = 'http://localhost:15000';

export function agentProgram(): Program {
  return {
    name: 'ctl-agent',
    summary: 'The node agent of the mesh, which runs next to the data-plane proxy.',
    flags: agentCommonFlags,
    commands: [
      envCommand(agentCommonFlags, { ...agentEnv, ...meshIptablesEnv }),
      meshCleanIptablesCommand(),
      meshIptablesCommand(),
      proxyCommand(),
      requestCommand(agentCommonFlags, 'Make an HTTP request to the proxy admin interface.', {
        baseFor: () => ADMIN_URL,
      }),
      versionCommand(agentVersionFlags),
      waitCommand(),
    ],
  };
}

/** Runs `ctl-agent` with the arguments after its name. Resolves with the exit code. */
export function runCtlAgent(args: readonly string[], io: ProgramIo): Promise<number> {
  return runProgram(agentProgram(), args, io);
}
