/** `ctl-agent proxy [sidecar|router]`: runs Envoy beside a workload. */

import type { ProxyRole } from '../../agent/index.ts';
import { closeLogging, getScope } from '../../logging/index.ts';
import {
  AGENT_UNSERVED,
  type AgentSettings,
  agentEnv,
  agentProxyFlags,
  describeUnserved,
  type Environment,
  flagAndEnvSettings,
  unservedVariables,
  usageError,
} from '../../settings/index.ts';
import { startLogging } from '../logging.ts';
import { type Command, command } from '../program.ts';

/** Runs Envoy until it is asked to stop. Resolves with the exit code. */
export type RunAgent = (role: ProxyRole, settings: AgentSettings, env: Environment) => Promise<number>;

/** Only this command loads the agent: the others start quickly. */
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
        getScope('default').warn(`this version does not support these variables: ${describeUnserved(unserved)}`);
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
  throw usageError(`expected sidecar or router, got ${JSON.stringify(text)}`);
}
