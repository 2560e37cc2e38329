/**
 * The test harness: real Envoys, echo backends, discovery processes and network namespaces, each of which ends with the
 * test (or program) that started it.
 */
export {
  type Agent,
  type AgentOptions,
  type AgentPorts,
  agentPorts,
  STANDARD_AGENT_PORTS,
  startAgent,
} from './agent.ts';
export { type Balancer, startBalancer } from './balancer.ts';
export { type BootstrapOptions, bootstrapJson } from './bootstrap.ts';
export { buildAside, programEnv, programFile } from './built.ts';
export { type Child, type ChildOptions, type Exit, startChild } from './child.ts';
export { claim, claimNumber } from './claims.ts';
export {
  type Discovery,
  type DiscoveryOptions,
  type DiscoveryPorts,
  discoveryPorts,
  startDiscovery,
} from './discovery.ts';
export {
  type DnsLoad,
  type DnsQuery,
  type DnsReply,
  type DnsServerIn,
  queryDns,
  startDns,
  startDnsIn,
  startDnsLoad,
} from './dns.ts';
export { type Echo, type EchoReply, exchange, startEcho, startEchoIn, startTcpEcho } from './echo.ts';
export { type Envoy, type EnvoyOptions, envoyPath, oldestEnvoyPath, startEnvoy, validateBootstrap } from './envoy.ts';
export { type EventuallyOptions, eventually, GiveUp } from './eventually.ts';
export { freePort, freePorts, tempDir } from './files.ts';
export { buildGoProgram, GO_ENVIRONMENT, goCommand, goUnavailable, goVersion } from './go.ts';
export { type RequestOptions, type Response, request } from './http.ts';
export {
  bridgeLinkAddress,
  canOwnNetwork,
  createNetwork,
  createNetworkHere,
  inOwnNetwork,
  type Namespace,
  type Network,
  netnsUnavailable,
  ownNetwork,
  redirectTraffic,
  runCtlAgent,
  writeResolvConf,
} from './netns.ts';
export { createScope, type Owner, type Scope } from './owner.ts';
export { type RawAnswer, type RawCall, type RawTls, rawCall } from './raw.ts';
export { type RawClient, startRawClient } from './raw-client.ts';
export { type SystemdMachine, type SystemdOptions, startSystemd, systemdUnavailable } from './systemd.ts';
