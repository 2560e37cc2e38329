/** `ctl-agent proxy [sidecar|router]`: runs Envoy beside a workload (specification: ctl-agent "ctl-agent proxy"). */

import { closeLogging, getScope } from '../../observe/logging.ts';
import { agentEnv } from '../agent-env.ts';
import { agentProxyFlags } from '../agent-flags.ts';
import { startLogging } from '../common-flags.ts';
import type { Environment } from '../env-table.ts';
import { usageError } from '../errors.ts';
import { type Command, command } from '../program.ts';
import { type AgentSettings, flagAndEnvSettings } from '../settings.ts';
import { AGENT_UNSERVED, unservedVariables } from '../unserved-env.ts';

/** Beside a workload, or as a gateway of its own. */
export type ProxyRole = 'sidecar' | 'router';

/** Runs Envoy until it is told to stop; gives the exit code. */
export type RunAgent = (role: ProxyRole, settings: AgentSettings, env: Environment) => Promise<number>;

/** The agent is loaded when it is started, so that the other commands are quick. */
const loadAndRun: RunAgent = async (role, settings, env) => {
  const { runAgent } = await import('../../agent/index.ts');
  return runAgent(role, settings, env);
};

export function proxyCommand(runAgent: RunAgent = loadAndRun): Command {
  return command({
    name: 'proxy',
    summary: 'Run the proxy agent.',
    flags: agentProxyFlags,
    arguments: ['[sidecar|router]'],
    async run({ flags, io }) {
      const role = roleOf(flags.positionals[0]);
      const settings = flagAndEnvSettings(agentProxyFlags, flags, agentEnv, io.env);
      const unserved = unservedVariables(AGENT_UNSERVED, io.env);
      startLogging(settings, 'ctl-agent');
      if (unserved.length > 0) {
        getScope('default').warn(`this version does not act on these variables: ${unserved.join(', ')}`);
      }
      try {
        return await runAgent(role, settings, io.env);
      } finally {
        closeLogging();
      }
    },
  });
}

function roleOf(text = 'sidecar'): ProxyRole {
  if (text === 'sidecar' || text === 'router') return text;
  throw usageError(`a proxy is a sidecar or a router, not ${JSON.stringify(text)}`);
}
