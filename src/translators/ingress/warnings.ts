/** Warnings about the parts of an Ingress that are not served as written: there is no other sign for its author. */
import { isDnsLabel } from '../../core/dns-names.ts';
import {
  derivedRouteProblem,
  fieldPath,
  type IngressBackend,
  type Resource,
  type ResourceWarning,
} from '../../resources/index.ts';
import { hostNames, matchingRoute } from './routes.ts';

type Path = readonly (string | number)[];
/** Reports a problem of a field of `spec`. */
type Warn = (path: Path, message: string) => void;

/** Maximum warnings of one Ingress. */
const MAX_WARNINGS = 16;

/** The first warnings about an Ingress, in the order of its fields. */
export function ingressWarnings({ content }: Resource<'Ingress'>): readonly ResourceWarning[] {
  const found: ResourceWarning[] = [];
  const warn: Warn = (path, message) => {
    if (found.length < MAX_WARNINGS) found.push({ field: fieldPath(['spec', ...path]), message });
  };
  checkBackend(content.defaultBackend, ['defaultBackend'], warn);
  for (const [index, entry] of (content.tls ?? []).entries()) {
    const path = ['tls', index];
    for (const [at, host] of (entry.hosts ?? []).entries()) checkHost(host, [...path, 'hosts', at], warn);
    const effect = entry.hosts?.length ? 'the TLS connections of its hosts are closed' : 'the entry has no effect';
    if (!entry.secretName) warn(path, `expected secretName: ${effect}`);
  }
  for (const [index, { host, http }] of (content.rules ?? []).entries()) {
    checkHost(host, ['rules', index, 'host'], warn);
    for (const [at, path] of (http?.paths ?? []).entries()) {
      const fields = ['rules', index, 'http', 'paths', at];
      const problem = derivedRouteProblem(matchingRoute(path));
      // The field in the problem is that of the derived route, which the author does not know.
      if (problem !== undefined) warn([...fields, 'path'], `${problem.replace(/^[^ ]+: /, '')}: it is not served`);
      checkBackend(path.backend, [...fields, 'backend'], warn);
    }
  }
  return found;
}

function checkHost(host: string | undefined, path: Path, warn: Warn): void {
  if (hostNames([host]).length > 0) return;
  warn(path, 'expected a DNS name, or one with * for its first label: it is not served');
}

function checkBackend(backend: IngressBackend | undefined, path: Path, warn: Warn): void {
  if (backend === undefined) return;
  const { service } = backend;
  if (service === undefined) {
    warn(path, 'expected service: requests receive HTTP 503');
  } else if (!isDnsLabel(service.name)) {
    warn([...path, 'service', 'name'], 'expected the name of a Service: requests receive HTTP 503');
  } else if (service.port?.number === undefined && service.port?.name === undefined) {
    warn([...path, 'service', 'port'], 'expected number or name: requests receive HTTP 503');
  }
}
