/** What the backends of routes lead to. */
import type { BackendReference } from '../../resources/index.ts';
import type { Complaint } from './conditions.ts';
import type { Documents } from './documents.ts';
import type { RouteKind } from './listeners.ts';
import { isPermitted } from './references.ts';

export interface BackendContext {
  readonly documents: Documents;
  readonly kind: RouteKind;
  /** Of the route. */
  readonly namespace: string;
  /** The cluster's domain. */
  readonly domain: string;
}

/** A port of a Service. */
export interface Backend {
  readonly namespace: string;
  readonly service: string;
  readonly host: string;
  readonly port: number;
}

export function serviceHost(namespace: string, name: string, domain: string): string {
  return `${name}.${namespace}.svc.${domain}`;
}

/** The backend of a reference, or why it cannot be used. */
export function resolveBackend(context: BackendContext, reference: BackendReference): Backend | Complaint {
  const { documents, kind: from, namespace, domain } = context;
  const { group = '', kind = 'Service', name, port } = reference;
  if (group !== '' || kind !== 'Service') {
    const shown = group === '' ? kind : `${kind}.${group}`;
    return { reason: 'InvalidKind', message: `backend ${shown} ${name}: expected a Service` };
  }
  const target = reference.namespace ?? namespace;
  if (!isPermitted(documents, { kind: from, namespace }, '', 'Service', { namespace: target, name })) {
    const message = `Service ${target}/${name}: no ReferenceGrant in namespace ${target} permits the reference`;
    return { reason: 'RefNotPermitted', message };
  }
  const missing = (message: string): Complaint => ({ reason: 'BackendNotFound', message });
  const service = documents.get('Service', target, name);
  if (service === undefined) return missing(`Service ${target}/${name} does not exist`);
  const { type, ports = [] } = service.content.spec;
  // It could name anything, also what the cluster protects (CVE-2021-25740 is the same for Ingress).
  if (type === 'ExternalName') return missing(`Service ${target}/${name} is of type ExternalName`);
  if (!ports.some((each) => each.port === port && each.protocol === 'TCP')) {
    return missing(`Service ${target}/${name} has no TCP port ${port ?? ''}`.trimEnd());
  }
  return { namespace: target, service: name, host: serviceHost(target, name, domain), port: port ?? 0 };
}
