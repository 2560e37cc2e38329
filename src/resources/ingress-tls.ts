/**
 * TLS settings of a Sidecar's ingress listeners that cannot be applied as written. Such a listener denies callers
 * outside the mesh (`closed` in its TLS settings) and the rest of the Sidecar stays in force: if the settings or the
 * whole Sidecar were ignored, the port would accept plain text. The webhook refuses new documents with the same
 * mistakes.
 */
import { fieldPath, UNKNOWN_FIELD, type ValidationError } from './parsing/issues.ts';
import { EMPTY_VALUE } from './parsing/nulls.ts';
import type { SidecarIngress, SidecarSpec } from './schema/sidecar.ts';
import type { ServerTlsSettings } from './schema/tls-settings.ts';
import { checkServerTls } from './validate/gateway.ts';
import { errorList } from './validate/validation-errors.ts';

type Path = readonly (string | number)[];

export interface ClosedListeners {
  readonly content: SidecarSpec;
  /** Why listeners are closed; paths start at the content. */
  readonly reasons: readonly ValidationError[];
}

/** Fields that were removed from a document before it was validated; paths start at the content. */
export interface LeftOut {
  readonly unknown: readonly Path[];
  readonly empty: readonly Path[];
}

/** The content with the TLS settings that can be applied; listeners with other TLS settings are closed. */
export function withClosedListeners(content: SidecarSpec, leftOut: LeftOut): ClosedListeners {
  const reasons: ValidationError[] = [];
  const [unknown, empty] = [firstByListener(leftOut.unknown), firstByListener(leftOut.empty)];
  const ingress = content.ingress?.map((listener, index) => {
    const reason = missingField(unknown.get(index), empty.get(index)) ?? unservedTls(listener);
    if (reason === undefined) return listener;
    const { path, message } = reason;
    const closed = `${fieldPath(path)}: ${message}`;
    const effect = `clients outside the mesh are denied at port ${listener.port.number ?? 0}`;
    reasons.push({ path: ['ingress', index, ...path], message: `${message}; ${effect}`, stored: 'closed' });
    return { ...listener, tls: { closed } };
  });
  return reasons.length === 0
    ? { content, reasons }
    : { content: { ...content, ...(ingress && { ingress }) }, reasons };
}

/** Whether a path is inside the TLS settings of an ingress listener. */
export function isIngressTls([field, , within]: Path): boolean {
  return field === 'ingress' && within === 'tls';
}

/** The first path inside the TLS settings of each listener, by the listener's index. */
function firstByListener(paths: readonly Path[]): ReadonlyMap<unknown, Path> {
  const first = new Map<unknown, Path>();
  for (const path of paths) if (isIngressTls(path) && !first.has(path[1])) first.set(path[1], path);
  return first;
}

/**
 * The first field of the settings that is missing, with its path in the listener: each field may restrict which clients
 * are accepted.
 */
function missingField(misspelt: Path | undefined, unset: Path | undefined): ValidationError | undefined {
  if (misspelt !== undefined) return { path: misspelt.slice(2), message: UNKNOWN_FIELD };
  return unset === undefined ? undefined : { path: unset.slice(2), message: EMPTY_VALUE };
}

/** Why the settings of a listener cannot be applied; undefined when they can, or when there are none. */
function unservedTls({ port, tls }: SidecarIngress): ValidationError | undefined {
  if (tls === undefined) return undefined;
  const { errors, found } = errorList();
  if (!['HTTPS', 'TLS'].includes(port.protocol?.toUpperCase() ?? '')) {
    errors.add(['port', 'protocol'], 'expected HTTPS or TLS when tls is set');
  }
  checkIngressTls(tls, (path, message) => errors.add(['tls', ...path], message));
  checkServerTls(tls, errors.at('tls'));
  return found[0];
}

function checkIngressTls(tls: ServerTlsSettings, add: (path: Path, message: string) => void): void {
  const { mode } = tls;
  if (mode !== 'SIMPLE' && mode !== 'MUTUAL' && mode !== 'OPTIONAL_MUTUAL') {
    add(['mode'], `expected SIMPLE, MUTUAL or OPTIONAL_MUTUAL${mode === undefined ? '' : `, got ${mode}`}`);
  }
  for (const field of ['credentialName', 'credentialNames', 'caCertCredentialName'] as const) {
    if (tls[field]?.length) add([field], 'expected files: sidecars cannot read Secrets');
  }
  if (tls.httpsRedirect === true) add(['httpsRedirect'], 'sidecars do not redirect requests');
  if (mode === 'SIMPLE') {
    for (const field of ['subjectAltNames', 'verifyCertificateSpki', 'verifyCertificateHash'] as const) {
      if (tls[field]?.length) add([field], 'requires mode MUTUAL: mode SIMPLE does not request client certificates');
    }
  } else if (!tls.caCertificates) {
    add(['caCertificates'], 'required to verify clients');
  }
}
