/** TLS of listeners: their certificates, and the verification of client certificates. */
import { AUTHORITIES_SUFFIX, keyPairOf } from '../../../core/tls/tls-secrets.ts';
import type {
  FrontendTls,
  ObjectReference,
  Resource,
  SecretName,
  ServerTlsSettings,
} from '../../../resources/index.ts';
import type { Complaint } from '../conditions.ts';
import type { Documents } from '../documents.ts';
import { absence, isPermitted, type Referrer } from '../references.ts';
import { authoritiesIn } from './authorities.ts';

export interface ServerCertificates {
  /** The Secrets that can be used. */
  readonly keyPairs: readonly SecretName[];
  readonly unresolved: Complaint | undefined;
  /**
   * A message about a Secret that only the gateway reads and the control plane does not know; undefined if all are
   * known.
   */
  readonly unchecked: string | undefined;
}

/** @param gatewayReads whether the gateway reads the Secrets of its namespace itself */
export function serverCertificates(
  documents: Documents,
  namespace: string,
  references: readonly ObjectReference[],
  gatewayReads: boolean,
): ServerCertificates {
  const keyPairs: SecretName[] = [];
  let unresolved: Complaint | undefined;
  let unchecked: string | undefined;
  for (const reference of references) {
    const found = keyPairSecret(documents, namespace, reference);
    if (!('reason' in found)) keyPairs.push(found);
    else if (gatewayReads && found.unknown?.namespace === namespace) {
      keyPairs.push(found.unknown);
      unchecked ??= ownSecret(namespace, reference.name);
    } else unresolved ??= { reason: found.reason, message: found.message };
  }
  if (references.length === 0) {
    unresolved = { reason: 'InvalidCertificateRef', message: 'a listener that terminates TLS needs certificateRefs' };
  }
  return { keyPairs, unresolved, unchecked };
}

function ownSecret(namespace: string, name: string): string {
  return `the gateway reads Secret ${namespace}/${name} itself; the control plane has not checked the Secret`;
}

interface KeyPairComplaint extends Complaint {
  /** The Secret, if it may exist but is not known to the control plane. */
  readonly unknown?: SecretName;
}

/** The Secret of a reference of a Gateway, or why it cannot be used. */
export function keyPairSecret(
  documents: Documents,
  namespace: string,
  reference: ObjectReference,
): SecretName | KeyPairComplaint {
  const { group = '', kind = 'Secret', name } = reference;
  const invalid = (message: string): Complaint => ({ reason: 'InvalidCertificateRef', message });
  if (group !== '' || kind !== 'Secret') return invalid(`${kind} ${name}: expected a Secret of the core group`);
  // Its SDS name would be equal to that of the authorities of another credential.
  if (name.endsWith(AUTHORITIES_SUFFIX)) {
    return invalid(`Secret ${name}: names that end in ${AUTHORITIES_SUFFIX} are reserved for CA certificates`);
  }
  const target = reference.namespace ?? namespace;
  if (!isPermitted(documents, gatewayIn(namespace), '', 'Secret', { namespace: target, name })) {
    const message = `Secret ${target}/${name}: no ReferenceGrant in namespace ${target} permits the reference`;
    return { reason: 'RefNotPermitted', message };
  }
  const secret = documents.get('Secret', target, name);
  if (secret === undefined) {
    const complaint = invalid(absence(documents, 'Secret', target, name));
    const isKnown = documents.accessTo('Secret', name) === 'read';
    return isKnown ? complaint : { ...complaint, unknown: { namespace: target, name } };
  }
  if (keyPairOf(secret.content) === undefined) {
    return invalid(`Secret ${target}/${name} has no certificate and key (tls.crt, tls.key)`);
  }
  return { namespace: target, name };
}

function gatewayIn(namespace: string): Referrer {
  return { kind: 'Gateway', namespace };
}

export interface ClientValidation {
  readonly settings: ServerTlsSettings;
  readonly rejected: Complaint | undefined;
  readonly unresolved: Complaint | undefined;
}

/** How the HTTPS listeners of a port verify clients; undefined if they accept all clients. */
export function clientValidation(
  documents: Documents,
  { meta, content }: Resource<'KubernetesGateway'>,
  port: number,
): ClientValidation | undefined {
  const validation = compileValidation(content.tls?.frontend, port);
  if (validation === undefined) return undefined;
  const found: string[] = [];
  let unresolved: Complaint | undefined;
  for (const reference of validation.caCertificateRefs) {
    const authorities = findAuthorities(documents, meta.namespace, reference);
    if (typeof authorities === 'string') found.push(authorities);
    else unresolved ??= authorities;
  }
  if (found.length === 0) {
    const rejected = { reason: 'NoValidCACertificate', message: unresolved?.message ?? 'expected caCertificateRefs' };
    return { settings: {}, rejected, unresolved: unresolved ?? { ...rejected, reason: 'InvalidCACertificateRef' } };
  }
  // A certificate that is not verified is not an identity, so it is not requested unless clients need one.
  const settings: ServerTlsSettings =
    validation.mode === 'AllowInsecureFallback' ? {} : { mode: 'MUTUAL', clientAuthorities: found.join('') };
  return { settings, rejected: undefined, unresolved };
}

function compileValidation(
  frontend: NonNullable<Resource<'KubernetesGateway'>['content']['tls']>['frontend'],
  port: number,
): FrontendTls['validation'] {
  const ofPort = frontend?.perPort?.find((each) => each.port === port);
  return ofPort === undefined ? frontend?.default?.validation : ofPort.tls.validation;
}

/** Whether any listener of a Gateway may accept clients without verifying them. */
export function acceptsInsecureClients({ content }: Resource<'KubernetesGateway'>): boolean {
  const frontend = content.tls?.frontend;
  const all = [frontend?.default, ...(frontend?.perPort ?? []).map(({ tls }) => tls)];
  return all.some((each) => each?.validation?.mode === 'AllowInsecureFallback');
}

function findAuthorities(documents: Documents, namespace: string, reference: ObjectReference): string | Complaint {
  const { group = '', kind = 'ConfigMap', name } = reference;
  if (group !== '' || kind !== 'ConfigMap') {
    return { reason: 'InvalidCACertificateKind', message: `${kind} ${name}: expected a ConfigMap of the core group` };
  }
  const target = reference.namespace ?? namespace;
  if (!isPermitted(documents, gatewayIn(namespace), '', 'ConfigMap', { namespace: target, name })) {
    const message = `ConfigMap ${target}/${name}: no ReferenceGrant in namespace ${target} permits the reference`;
    return { reason: 'RefNotPermitted', message };
  }
  const authorities = authoritiesIn(documents, target, name);
  if (typeof authorities === 'string') return authorities;
  return { reason: 'InvalidCACertificateRef', message: authorities.missing };
}
