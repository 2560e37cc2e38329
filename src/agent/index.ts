/** ctl-agent: runs Envoy beside a workload. This is the room's door; its contracts are in `types.ts`. */
export { runAgent } from './program.ts';
