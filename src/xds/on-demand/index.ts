/**
 * Configuration on demand: proxies get the virtual hosts that they ask for, with the clusters that these lead to, and
 * what everything else of their configuration leads to.
 */

export type { AskEvent } from './ask-events.ts';
export { concernedNames } from './concerned-names.ts';
export { type CostOfAll, costOfAll } from './cost-of-all.ts';
export { ALWAYS_NEEDED, Demand } from './demand.ts';
export type { HeldBecause, HeldContent } from './held-content.ts';
export { leadsTo } from './leads-to.ts';
export {
  FORGET_MS,
  type LearnedHosts,
  type LearnedScope,
  MAX_HOSTS,
  MAX_SCOPES,
  namespaceOf,
} from './learned-hosts.ts';
export { SharedDemand } from './shared-demand.ts';
export type { Asking, StreamDemand } from './stream-demand.ts';
