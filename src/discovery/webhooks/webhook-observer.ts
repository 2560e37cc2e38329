/** Turns the events of the webhooks into metrics and log lines. */
import { systemClock } from '../../core/clock.ts';
import { getScope, type LimitedLog, limitLog } from '../../logging/index.ts';
import type { Metrics } from '../../observe/index.ts';
import type { WebhookObserver } from '../../webhooks/index.ts';

/** The largest number of characters of a message in the log. */
const MAX_LOGGED = 1000;

/** A rate-limited log for lines that callers cause. */
function limited(write: (line: string) => void): LimitedLog {
  return limitLog({ write, later: (ms, run) => void systemClock.setTimer(ms, run) });
}

export function webhookObserver(metrics: Metrics): WebhookObserver {
  const injection = getScope('default');
  const validation = getScope('validation');
  const failedInjection = limited((line) => injection.error(line));
  const refusedDocument = limited((line) => validation.info(line));
  const badRequest = limited((line) => getScope('validationServer').warn(line));
  return {
    requested({ kind }) {
      if (kind === 'inject') metrics.sidecar_injection_requests_total.inc();
    },
    answered(_webhook, { outcome, group, resource, subject, reason }) {
      const shown = reason.replaceAll('\n', ' ').slice(0, MAX_LOGGED);
      switch (outcome) {
        case 'injected':
          metrics.sidecar_injection_success_total.inc();
          injection.debug(`injected ${subject}`);
          return;
        case 'skipped':
          metrics.sidecar_injection_skip_total.inc();
          injection.debug(`not injected: ${subject}: ${shown}`);
          return;
        case 'injection-failed':
          metrics.sidecar_injection_failure_total.inc();
          failedInjection('injection', `refused ${subject}: ${shown}`);
          return;
        case 'valid':
          metrics.cfg_validation_passed.inc({ group, resource });
          return;
        case 'invalid':
          metrics.cfg_validation_failed.inc({ group, resource });
          refusedDocument(
            'validation',
            shown.startsWith(`${subject}: `) ? `refused ${shown}` : `refused ${subject}: ${shown}`,
          );
      }
    },
    failed(webhook, status, message, caller) {
      if (webhook?.kind === 'inject') metrics.sidecar_injection_failure_total.inc();
      else metrics.cfg_validation_http_error.inc({ status: String(status) });
      const path = webhook === undefined ? 'a request' : `a request to /${webhook.kind}`;
      badRequest(caller, `${path} of ${caller} failed with HTTP status ${status}: ${message.slice(0, MAX_LOGGED)}`);
    },
  };
}
