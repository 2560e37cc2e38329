/**
 * WorkloadEntries of a mesh without an API server: a source of the store, whose documents exist while their workloads
 * are connected to this replica.
 */
import { systemClock } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import { HEALTHY_CONDITION, parseResource, type ResourceEvent, resourceKey } from '../../resources/index.ts';
import { type AdmittedEntry, ENTRY_API_VERSION } from './admission.ts';
import { type EntryStorage, REGISTRATION_SOURCE } from './entries.ts';

export function memoryEntries(apply: (event: ResourceEvent) => void): EntryStorage {
  return {
    async connected(entry, _connectedAt, problem) {
      const parsed = parseResource(documentOf(entry, problem), { source: REGISTRATION_SOURCE }, () => undefined);
      if ('resource' in parsed) apply({ type: 'set', resource: parsed.resource, eventTime: systemClock.now() });
      // The group was validated; what remains is an annotation or a locality that the workload states.
      else throw new CtlError('already_exists', 'problem' in parsed ? parsed.problem.message : parsed.ignored.what);
    },
    disconnected: async () => {},
    async remove({ namespace, name }) {
      apply({ type: 'delete', key: resourceKey('WorkloadEntry', namespace, name), eventTime: systemClock.now() });
    },
    close: async () => {},
  };
}

function documentOf(
  { namespace, name, labels, annotations, spec }: AdmittedEntry,
  problem: string | undefined,
): object {
  return {
    apiVersion: ENTRY_API_VERSION,
    kind: 'WorkloadEntry',
    metadata: { namespace, name, labels, annotations },
    spec,
    ...(problem === undefined ? {} : { status: { conditions: [healthCondition(problem)] } }),
  };
}

/** The condition of a workload that has reported its health. */
export function healthCondition(problem: string): { type: string; status: string; message?: string } {
  return problem === ''
    ? { type: HEALTHY_CONDITION, status: 'True' }
    : { type: HEALTHY_CONDITION, status: 'False', message: problem };
}
