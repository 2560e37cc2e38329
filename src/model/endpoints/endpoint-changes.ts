/** Which changes of documents are changes of endpoints only. */
import type { AnyResource, Resource, ResourceChange } from '../../resources/index.ts';
import { deepEqual } from '../common/equal.ts';
import { serviceOfEndpoints } from './endpoint-documents.ts';

/**
 * The service whose endpoints a change is about, or whatever else stands for it: changes with the same result belong
 * together. Undefined if more than endpoints, and the workloads behind them, may change. An endpoint is served when its
 * Pod is known, so changes of Pods count.
 */
export function changedEndpoints({ key, before, after }: ResourceChange): string | undefined {
  const resource = after ?? before;
  switch (resource?.kind) {
    case 'EndpointSlice':
    case 'Endpoints':
      return serviceOfEndpoints(resource) ?? key;
    case 'Pod':
    case 'WorkloadEntry':
      return key;
    case 'ServiceEntry':
      return isEqualButEndpoints(before, after) ? key : undefined;
    default:
      return undefined;
  }
}

/** Whether both have endpoints, and nothing else differs. Without endpoints a ServiceEntry is resolved otherwise. */
function isEqualButEndpoints(before: AnyResource | undefined, after: AnyResource | undefined): boolean {
  if (before?.kind !== 'ServiceEntry' || after?.kind !== 'ServiceEntry') return false;
  const [was, is] = [before as Resource<'ServiceEntry'>, after as Resource<'ServiceEntry'>];
  const hasEndpoints = [was, is].every(({ content }) => (content.endpoints ?? []).length > 0);
  const rest = ({ meta, content }: Resource<'ServiceEntry'>) => [meta, { ...content, endpoints: undefined }];
  return hasEndpoints && deepEqual(rest(was), rest(is));
}
