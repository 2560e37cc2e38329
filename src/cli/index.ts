/**
 * The command lines of both programs: command trees, and one typed table of flags and of environment variables each,
 * from which reader, help, defaults, types and documents come. The agent's own is `agent.ts`:
 * its bundle must not hold what only ctl-discovery runs.
 */

import { discoveryProgram } from './discovery.ts';
import { discoveryEnv } from './discovery-env.ts';
import { type Environment, shownEnvironment } from './env-table.ts';
import { type ProgramIo, runProgram } from './program.ts';

export type { ProxyRole } from './commands/proxy.ts';
export { formatDuration, parseDuration } from './duration.ts';
export type { Environment } from './env-table.ts';
export { type ListenAddress, parseListenAddress } from './listen-address.ts';
export type { ProgramIo, TextOutput } from './program.ts';
export {
  type AgentSettings,
  type DiscoverySettings,
  defaultAgentSettings,
  defaultDiscoverySettings,
} from './settings.ts';

/** Runs `ctl-discovery` with the arguments after its name; gives the exit code. */
export function runCtlDiscovery(args: readonly string[], io: ProgramIo): Promise<number> {
  return runProgram(discoveryProgram(), args, io);
}

/** The variables of ctl-discovery that are set, for showing to operators; nothing else of the environment. */
export function shownDiscoveryEnvironment(env: Environment): Record<string, string> {
  return shownEnvironment(discoveryEnv, env);
}
