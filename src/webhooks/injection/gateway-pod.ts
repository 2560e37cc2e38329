/** Recognizes Pods that run a gateway of their own: they never get a sidecar. */
import type { PodObject } from '../types.ts';
import { type PodRecord, recordOf, recordsOf } from './pod-shape.ts';

/** Names of the container of a gateway: by the templates, in Istio's charts, and in this project's chart. */
const GATEWAY_CONTAINERS: ReadonlySet<unknown> = new Set(['mesh-proxy', 'istio-proxy', 'proxy']);

/** The name of a container that runs a gateway (`ctl-agent proxy router`); undefined if there is none. */
export function gatewayContainer({ spec }: PodObject): unknown {
  const containers = recordsOf(recordOf(spec).containers);
  return containers.find((container) => GATEWAY_CONTAINERS.has(container.name) && runsGateway(container))?.name;
}

/** Images have the agent as their entry point, or the command has it. */
export function runsGateway({ command, args }: PodRecord): boolean {
  const words = [command, args].flatMap((list): unknown[] => (Array.isArray(list) ? list : []));
  return words.some((word, index) => word === 'proxy' && words[index + 1] === 'router');
}
