import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GenerationFinding } from '../../generate/types.ts';
import { LOG_WINDOW_MS } from '../../logging/limit.ts';
import { FindingLog } from './finding-log.ts';

const missing = (server: string): GenerationFinding => ({
  metric: 'ctl_invalid_out_listeners',
  type: 'lds',
  unit: '443',
  message: `Gateway edge/shop, server ${server}: Secret edge/shop-cert is not there`,
});

test('a finding is logged when it appears in any view and when it is resolved', () => {
  const lines: string[] = [];
  const timers: { readonly ms: number; readonly run: () => void }[] = [];
  let findings: GenerationFinding[] = [];
  const log = new FindingLog({
    findings: () => findings,
    log: { info: (line) => lines.push(`info ${line}`), warn: (line) => lines.push(line) },
    later: (ms, run) => void timers.push({ ms, run }),
  });
  const settle = (): void => {
    log.generated();
    log.generated();
    // The window of the rate limit ends.
    for (const { ms, run } of timers.splice(0)) if (ms < LOG_WINDOW_MS) run();
  };
  // Two views of one gateway have the same finding.
  findings = [missing('a'), missing('a'), { ...missing('b'), metric: 'ctl_duplicate_proxy_clusters' }];
  settle();
  assert.deepEqual(lines, ['not served: Gateway edge/shop, server a: Secret edge/shop-cert is not there']);
  settle();
  assert.equal(lines.length, 1);
  findings = [];
  settle();
  assert.equal(lines[1], 'info resolved: Gateway edge/shop, server a: Secret edge/shop-cert is not there');
});

test('findings that make calls fail are logged, conflicts with a winner are not', () => {
  const lines: string[] = [];
  const metrics = [
    'ctl_missing_credentials',
    'ctl_policy_problems',
    'ctl_refused_inbound_ports',
    'ctl_vservice_dup_domain',
  ] as const;
  const log = new FindingLog({
    findings: () => metrics.map((metric) => ({ metric, type: 'lds', unit: '', message: metric })),
    log: { info: (line) => lines.push(line), warn: (line) => lines.push(line) },
    later: (ms, run) => {
      if (ms < LOG_WINDOW_MS) run();
    },
  });
  log.generated();
  assert.deepEqual(
    lines,
    metrics.slice(0, 3).map((metric) => `not served: ${metric}`),
  );
});
