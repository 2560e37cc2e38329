/**
 * The settings of all programs: typed tables of flags and environment variables. Parser, help, defaults, types and
 * reference documents are derived from these tables.
 */

export { agentEnv } from './agent/agent-env.ts';
export { agentCommonFlags, agentProxyFlags, agentVersionFlags, agentWaitFlags } from './agent/agent-flags.ts';
export { meshCleanIptablesFlags, meshIptablesEnv, meshIptablesFlags } from './agent/agent-iptables-flags.ts';
export { type LoggingSettings, versionFlags } from './common-flags.ts';
export {
  discoveryAnalyzeFlags,
  discoveryBugReportFlags,
  discoveryDiffFlags,
  discoveryDistributionFlags,
  discoveryGetFlags,
  discoveryProxyConfigFlags,
  discoveryProxyStatusFlags,
  discoveryValidateFlags,
  discoveryWhyFlags,
} from './discovery/discovery-client-flags.ts';
export { discoveryEnv } from './discovery/discovery-env.ts';
export {
  discoveryCommonFlags,
  discoveryFlags,
  discoveryInjectFlags,
  discoveryIssueTokenFlags,
  discoveryIssueWorkloadFlags,
  discoveryRequestFlags,
  discoveryVersionFlags,
} from './discovery/discovery-flags.ts';
export type { OtelSettings } from './discovery/discovery-otel-env.ts';
export { parseDuration } from './duration.ts';
export { type Environment, type EnvTable, envDocument, readEnv, shownEnvironment } from './env-table.ts';
export { usageError } from './errors.ts';
export type { FlagSpec, FlagTable, FlagValue } from './flag-table.ts';
export { jwtFlags } from './jwt-flags.ts';
export { dialAddress, type ListenAddress, parseListenAddress } from './listen-address.ts';
export { findSubcommand, type ParsedFlags, parseFlags } from './parse-flags.ts';
export { registryServers } from './registry-servers.ts';
export {
  type AgentSettings,
  type DiscoverySettings,
  defaultAgentSettings,
  defaultDiscoverySettings,
  flagAndEnvSettings,
  flagSettings,
  shownFlags,
} from './settings.ts';
export { AGENT_UNSERVED, DISCOVERY_UNSERVED, describeUnserved, unservedVariables } from './unserved-env.ts';
export { isEnabled } from './values.ts';
