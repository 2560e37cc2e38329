/** Reports the health of the workload to the control plane, if the agent probes the workload. */
import type { Log } from '../../core/log.ts';
import type { ControlPlaneConnection } from '../xds-proxy/index.ts';
import type { WorkloadProbe } from './workload-probe.ts';

export interface HealthReports {
  /** Reports that the proxy is draining. */
  draining(): void;
  close(): void;
}

export interface HealthReportDeps {
  readonly connection: { get(): Promise<Pick<ControlPlaneConnection, 'reportHealth'>> };
  /** Undefined when the proxy is ready; otherwise the reason. */
  readonly proxy: () => Promise<string | undefined>;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<unknown>;
  readonly log: Log;
}

/** Without a probe, nothing is reported. */
export async function startHealthReports(
  probe: WorkloadProbe | undefined,
  deps: HealthReportDeps,
): Promise<HealthReports> {
  if (probe === undefined) return { draining: () => {}, close: () => {} };
  const ending = new AbortController();
  const connection = await deps.connection.get();
  const { watchWorkloadHealth } = await import('./workload-probe.ts');
  const { proxy, sleep, log } = deps;
  const report = connection.reportHealth.bind(connection);
  void watchWorkloadHealth({ probe, proxy, report, sleep, log }, ending.signal);
  return {
    draining() {
      ending.abort();
      report({ healthy: false, message: 'the proxy is draining' });
    },
    close: () => ending.abort(),
  };
}
