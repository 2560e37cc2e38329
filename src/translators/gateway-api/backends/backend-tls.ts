/**
 * How gateways connect to a Service: TLS by BackendTLSPolicies, and HTTP/2 for GRPCRoutes. One DestinationRule for each
 * Service, which only gateways read.
 */
import {
  type AnyResource,
  type BackendTlsPolicySpec,
  type ClientTlsSettings,
  type Resource,
  type ResourceKey,
  resourceKey,
} from '../../../resources/index.ts';
import { deriveResource } from '../../derived.ts';
import type { Complaint } from '../conditions.ts';
import type { Documents } from '../documents.ts';
import { authoritiesIn } from '../listeners/authorities.ts';
import { compareRoutes } from '../precedence.ts';
import { serviceHost } from './backends.ts';

export type Policy = Resource<'BackendTLSPolicy'>;

/** A Service as `namespace/name`. */
export type ServiceName = string;

/** The Services that a policy targets, without duplicates. */
export function targetsOf({ meta, content }: Policy): readonly ServiceName[] {
  const names = (content.targetRefs ?? []).filter(isService).map(({ name }) => `${meta.namespace}/${name}`);
  return [...new Set(names)];
}

type TargetRef = NonNullable<BackendTlsPolicySpec['targetRefs']>[number];

/** The API does not restrict the characters of the name. */
function isService({ group = '', kind, name }: TargetRef): boolean {
  return group === '' && kind === 'Service' && !name.includes('/');
}

/** The oldest first: it takes precedence. */
export function inOrder(policies: readonly Policy[]): readonly Policy[] {
  const order = ({ meta }: Policy) => ({ created: meta.created, route: `${meta.namespace}/${meta.name}` });
  return policies.toSorted((a, b) => compareRoutes(order(a), order(b)));
}

/** Whether a policy is for a section of a Service: a port's name, or undefined for the whole Service. */
export function isFor({ meta, content }: Policy, service: ServiceName, section: string | undefined): boolean {
  return (content.targetRefs ?? []).some(
    (target) =>
      isService(target) &&
      `${meta.namespace}/${target.name}` === service &&
      (target.sectionName || undefined) === section,
  );
}

export interface BackendTls {
  readonly settings: ClientTlsSettings;
  /** Why no connection can be made; undefined when connections can be made. */
  readonly rejected: Complaint | undefined;
  readonly unresolved: Complaint | undefined;
}

/** The TLS settings of a policy. Without any authorities that can be used, no connection is made. */
export function backendTls(documents: Documents, { meta, content }: Policy): BackendTls {
  const { caCertificateRefs = [], wellKnownCACertificates, hostname, subjectAltNames = [] } = content.validation;
  const names = subjectAltNames.flatMap((each) => (each.type === 'URI' ? each.uri : each.hostname) ?? []);
  const base = { mode: 'SIMPLE' as const, sni: hostname, subjectAltNames: names.length > 0 ? names : [hostname] };
  const unusable = { ...base, unusable: true as const };
  if (caCertificateRefs.length === 0) {
    if (wellKnownCACertificates === 'System') return { settings: base, rejected: undefined, unresolved: undefined };
    const message = `wellKnownCACertificates ${wellKnownCACertificates ?? ''}: expected System, or caCertificateRefs`;
    return { settings: unusable, rejected: { reason: 'Invalid', message }, unresolved: undefined };
  }
  const found: string[] = [];
  let unresolved: Complaint | undefined;
  for (const { group = '', kind, name } of caCertificateRefs) {
    if (group !== '' || kind !== 'ConfigMap') {
      unresolved ??= { reason: 'InvalidKind', message: `${kind} ${name}: expected a ConfigMap of the core group` };
      continue;
    }
    const authorities = authoritiesIn(documents, meta.namespace, name);
    if (typeof authorities === 'string') found.push(authorities);
    else unresolved ??= { reason: 'InvalidCACertificateRef', message: authorities.missing };
  }
  if (found.length > 0) return { settings: { ...base, authorities: found.join('') }, rejected: undefined, unresolved };
  const message = unresolved?.message ?? 'no certificate authorities';
  return { settings: unusable, rejected: { reason: 'NoValidCACertificate', message }, unresolved };
}

export interface ServicePolicies {
  readonly documents: Documents;
  readonly domain: string;
  readonly service: ServiceName;
  /** For this Service, in any order. */
  readonly policies: readonly Policy[];
  /** Ports that GRPCRoutes use. */
  readonly grpcPorts: ReadonlySet<number>;
}

export function serviceDocuments(input: ServicePolicies): readonly AnyResource[] {
  const { documents, domain, service, grpcPorts } = input;
  const [namespace = '', name = ''] = service.split('/');
  const policies = inOrder(input.policies);
  const ports = documents.get('Service', namespace, name)?.content.spec.ports ?? [];
  const settings = ports.flatMap((port) => {
    const policy =
      policies.find((each) => port.name !== undefined && isFor(each, service, port.name)) ??
      policies.find((each) => isFor(each, service, undefined));
    // A port with a declared protocol keeps it.
    const upgrades = grpcPorts.has(port.port) && port.appProtocol === undefined;
    if (policy === undefined && !upgrades) return [];
    return {
      port: { number: port.port },
      ...(policy === undefined ? {} : { tls: backendTls(documents, policy).settings }),
      ...(upgrades ? { connectionPool: { http: { h2UpgradePolicy: 'UPGRADE' as const } } } : {}),
    };
  });
  if (settings.length === 0) return [];
  const content = {
    host: serviceHost(namespace, name, domain),
    gatewaysOnly: true as const,
    trafficPolicy: { portLevelSettings: settings },
  };
  const from: ResourceKey = resourceKey('Service', namespace, name);
  return [deriveResource('DestinationRule', { namespace, name: `gateway-api~${name}` }, content, from)];
}
