/** Problems of services that have no document: those that cannot be read, and names that cannot be host names. */
import type { ResourceEvent } from '../../resources/index.ts';
import { SOURCE } from './documents.ts';

/** Problems that are reported one by one. A registry with more has another problem than single services. */
const MOST = 100;

interface Reporter {
  readonly name: string;
  /** By name of the service; `''` for the list of services. */
  problems(): ReadonlyMap<string, string>;
}

export class ProblemEvents {
  /** Id of a problem → its message, as it was reported. */
  #reported: ReadonlyMap<string, string> = new Map();

  /** The events for what changed since the last call. */
  update(reporters: readonly Reporter[], eventTime: number): ResourceEvent[] {
    const current = new Map<string, string>();
    for (const { name: datacenter, problems } of reporters.map((each) => ({
      name: each.name,
      problems: each.problems(),
    }))) {
      for (const [service, message] of problems) {
        if (current.size < MOST) current.set(idOf(service, datacenter), message);
      }
    }
    const events: ResourceEvent[] = [];
    for (const [id, message] of current) {
      if (this.#reported.get(id) === message) continue;
      events.push({ type: 'invalid', problem: { id, origin: { source: SOURCE }, field: id, message }, eventTime });
    }
    for (const id of this.#reported.keys()) if (!current.has(id)) events.push({ type: 'resolved', id, eventTime });
    this.#reported = current;
    return events;
  }
}

function idOf(service: string, datacenter: string): string {
  const what = service === '' ? 'services' : `service ${service}`;
  return datacenter === '' ? what : `${what} of datacenter ${datacenter}`;
}
