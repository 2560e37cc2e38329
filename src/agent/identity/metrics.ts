/** Counters of the identity part, as plain numbers. */
import { X509Certificate } from 'node:crypto';
import type { IdentityMetric, WorkloadSecrets } from '../types.ts';
import { splitPem } from './certificates.ts';

export interface IdentityCounters extends RequestCounters {
  num_outgoing_retries: number;
  /** Open streams of the SDS server. */
  total_active_connections: number;
  total_pushes: number;
  total_push_errors: number;
  total_secret_update_failures: number;
  total_stale_connections: number;
  /** Requests for trust bundles. Those of {@link IdentityCounters} itself are for certificates. */
  readonly bundles: RequestCounters;
}

export interface RequestCounters {
  num_outgoing_requests: number;
  num_failed_outgoing_requests: number;
  /** The sum, ms. */
  outgoing_latency: number;
}

export function newCounters(): IdentityCounters {
  return {
    total_active_connections: 0,
    total_pushes: 0,
    total_push_errors: 0,
    total_secret_update_failures: 0,
    total_stale_connections: 0,
    ...newRequestCounters(),
    num_outgoing_retries: 0,
    bundles: newRequestCounters(),
  };
}

function newRequestCounters(): RequestCounters {
  return { num_outgoing_requests: 0, num_failed_outgoing_requests: 0, outgoing_latency: 0 };
}

/** Counters of requests. The agent also sends requests for other purposes, which a label tells apart. */
const OF_REQUESTS: ReadonlySet<string> = new Set<keyof IdentityCounters>([
  'num_outgoing_requests',
  'num_failed_outgoing_requests',
  'num_outgoing_retries',
  'outgoing_latency',
]);

/** The counters, and the remaining validity of each secret in seconds (negative after its expiry). */
export function metricsOf(
  counters: IdentityCounters,
  secrets: WorkloadSecrets | undefined,
  now: number,
): IdentityMetric[] {
  const { bundles, ...own } = counters;
  const labelled = (type: string) => {
    return ([name, value]: readonly [string, number]): IdentityMetric =>
      OF_REQUESTS.has(name) ? { name, value, labels: { request_type: type } } : { name, value };
  };
  const rows = [...Object.entries(own).map(labelled('csr')), ...Object.entries(bundles).map(labelled('trust_bundle'))];
  if (secrets === undefined) return rows;
  const left = (name: string, expiresAt: number): IdentityMetric => ({
    name: 'cert_expiry_seconds',
    value: Math.round((expiresAt - now) / 1000),
    labels: { resource_name: name },
  });
  const rootEnds = splitPem(secrets.roots).map((pem) => Date.parse(new X509Certificate(pem).validTo));
  return [...rows, left('default', secrets.certificate.expiresAt), left('ROOTCA', Math.max(...rootEnds))];
}
