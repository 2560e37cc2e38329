/** The services of a listener, and their order of precedence. */
import { compareCreated, compareText, type Service } from '../../model/index.ts';
import { isHttp } from '../filters/index.ts';
import type { ServicePortEntry } from '../indexes/index.ts';

/**
 * The service port for a listener at `port`: the one with this number, else the only one. For HTTP listeners, only
 * ports without another declared protocol are used; for a unix domain socket (0), the first of them.
 */
export function servedAs(service: Service, port: number, http: boolean): ServicePortEntry | undefined {
  const usable = service.ports.filter(({ protocol }) =>
    http ? isHttp(protocol) || protocol === 'Unsupported' : protocol !== 'UDP',
  );
  const found = usable.find((candidate) => candidate.port === port);
  const only = usable.length === 1 || (http && port === 0) ? usable[0] : undefined;
  const served = found ?? only;
  return served === undefined ? undefined : { service, port: served };
}

/** Kubernetes Services first, then the oldest: existing services keep their addresses when others are added. */
export function byPrecedence(a: Service, b: Service): number {
  if (a.registry !== b.registry) return a.registry === 'Orchestrator' ? -1 : 1;
  return compareCreated(a.created, b.created) || compareText(a.hostname, b.hostname);
}
