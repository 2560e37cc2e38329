/**
 * Validates kinds of the Gateway API as an API server does (their custom resource definitions, version 1.6), so that
 * names and hosts in files are valid in derived documents and in Envoy.
 */
import { DNS_SUBDOMAIN_PATTERN, isDnsSubdomain, MAX_DNS_NAME } from '../../core/dns-names.ts';
import { shown } from '../parsing/issues.ts';
import type { BackendTlsPolicySpec, KubernetesGatewaySpec } from '../schema/gateway-api.ts';
import { each, unique, type ValidationErrors } from './validation-errors.ts';

const HOSTNAME = new RegExp(`^(\\*\\.)?${DNS_SUBDOMAIN_PATTERN}$`, 'i');
const PRECISE_HOSTNAME = new RegExp(`^${DNS_SUBDOMAIN_PATTERN}$`, 'i');
/** API servers allow 16. */
const MAX_RULES = 1024;

export function validateKubernetesGateway({ listeners }: KubernetesGatewaySpec, errors: ValidationErrors): void {
  const at = errors.at('listeners');
  each(at, listeners, ({ name, hostname }, of) => {
    if (!isDnsSubdomain(name)) {
      of.add(['name'], `expected lower-case letters, digits, - and ., got ${shown(name)}`);
    }
    if (hostname !== undefined && hostname !== '') checkHostname(of.at('hostname'), hostname);
  });
  unique(at, listeners, ['name'], 'listener name', ({ name }) => name);
}

export function validateRoute(
  {
    hostnames,
    rules = [],
  }: { readonly hostnames?: readonly string[] | undefined; readonly rules?: readonly object[] | undefined },
  errors: ValidationErrors,
): void {
  each(errors.at('hostnames'), hostnames, (hostname, at) => checkHostname(at, hostname));
  if (rules.length > MAX_RULES) errors.add(['rules'], `expected at most ${MAX_RULES} rules, got ${rules.length}`);
}

export function validateBackendTlsPolicy({ validation }: BackendTlsPolicySpec, errors: ValidationErrors): void {
  const at = errors.at('validation', 'hostname');
  if (!isHostname(validation.hostname, PRECISE_HOSTNAME)) {
    at.add([], `expected a host name, got ${shown(validation.hostname)}`);
  }
}

function checkHostname(errors: ValidationErrors, hostname: string): void {
  if (isHostname(hostname, HOSTNAME)) return;
  errors.add([], `expected a host name or a wildcard such as "*.example.com", got ${shown(hostname)}`);
}

function isHostname(text: string, pattern: RegExp): boolean {
  return text.length <= MAX_DNS_NAME && pattern.test(text);
}
