/** ctl-agent: runs Envoy beside a workload. Its contracts are in `types.ts`. */

export { AGENT_METRICS } from './metrics/table.ts';
export { runAgent } from './program.ts';
export type { ProxyRole } from './types.ts';
