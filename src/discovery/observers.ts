/** From what the rooms tell of themselves to metrics and log lines. The rooms know neither. */
import { systemClock } from '../core/clock.ts';
import { type CtlError, messageOf } from '../core/errors.ts';
import { spiffeUri } from '../core/identity.ts';
import type { XdsType } from '../generate/types.ts';
import { getScope, type LimitedLog, limitLog, type ScopeName } from '../logging/index.ts';
import type { NameConflict, Snapshot } from '../model/index.ts';
import type { Metrics, Series } from '../observe/index.ts';
import type { EngineObserver } from '../push/index.ts';
import { CORE_KINDS } from '../resources/index.ts';
import type { CertificateObserver } from '../security/index.ts';
import type { AppliedSummary, DebounceHooks, ToldEvent } from '../store/index.ts';
import type { XdsObserver } from '../xds/index.ts';
import type { PublishFault } from './publisher.ts';
import type { PushLog } from './push-log.ts';

/** Longest part of a message of a proxy that is logged. */
const MAX_LOGGED = 1000;

/** A log for lines that callers bring about, however often they do. */
function limited(write: (message: string) => void): LimitedLog {
  return limitLog({ write, later: (ms, run) => void systemClock.setTimer(ms, run) });
}

/** The same by a peer's `address:port`: who comes back has another port, so the address is what counts. */
function limitedByPeer(write: (message: string) => void): LimitedLog {
  const log = limited(write);
  return (peer, message) => log(peer.replace(/:\d+$/, ''), message);
}

/** @param onGenerated called after each generation that was taken over */
export function engineObserver(metrics: Metrics, pushes: PushLog, onGenerated: () => void = () => {}): EngineObserver {
  const log = getScope('ads');
  const pushTime = pushTimes(metrics);
  const buildErrors = (types: Iterable<XdsType>): void => {
    for (const type of types) metrics.ctl_xds_pushes.inc({ type: `${type}_builderr` });
  };
  // Values for each proxy at each push: their series are looked up once.
  const convergence = metrics.ctl_proxy_convergence_time.series();
  const queueTime = metrics.ctl_proxy_queue_time.series();
  return {
    triggered: (reason) => metrics.ctl_push_triggers.inc({ type: reason }),
    converged: (milliseconds) => convergence.observe(milliseconds / 1000),
    queueWaited: (milliseconds) => queueTime.observe(milliseconds / 1000),
    stage: (stage, milliseconds) => {
      metrics.ctl_stage_seconds.observe(milliseconds / 1000, { stage });
      // The last stage of a generation.
      if (stage === 'intern') onGenerated();
    },
    generated: (type, milliseconds) => pushTime(type).observe(milliseconds / 1000),
    pushBegan: () => pushes.began(),
    pushEnded: (connectionId, milliseconds) => pushes.ended(connectionId, milliseconds),
    failed: (message, type) => {
      if (type !== undefined) buildErrors([type]);
      metrics.ctl_total_xds_internal_errors.inc();
      log.error(`not generated, the last good version stays: ${message}`);
    },
    viewFailed: ({ view, failures, error, retryInMs }, types) => {
      buildErrors(types);
      metrics.ctl_total_xds_internal_errors.inc();
      const message = `cannot generate ${view}, its proxies keep what they have: ${error}`;
      // The state is logged once; /debug/push_status has it for as long as it lasts.
      if (failures === 1) log.error(`${message}; tried again with growing delays until it works`);
      else log.debug(message, { failures, retryInMs });
    },
    viewRecovered: (view, failures) => log.info(`${view} is generated again, after ${failures} failed attempts`),
  };
}

/** The series of `ctl_xds_push_time`: of generating a type, and of writing it to a proxy. Each is looked up once. */
function pushTimes(metrics: Metrics): (type: XdsType) => Series {
  const known: Partial<Record<XdsType, Series>> = {};
  return (type) => {
    const series = known[type] ?? metrics.ctl_xds_push_time.series({ type });
    known[type] = series;
    return series;
  };
}

/** Pushes of one turn of the event loop, counted together: a change is one for each of a thousand proxies. */
class PushCounts {
  readonly #metrics: Metrics;
  readonly #counts = new Map<XdsType, number>();
  #scheduled = false;

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
  }

  count(type: XdsType): void {
    this.#counts.set(type, (this.#counts.get(type) ?? 0) + 1);
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    for (const [type, count] of this.#counts) this.#metrics.ctl_xds_pushes.inc({ type }, count);
    this.#counts.clear();
  }
}

/**
 * Callers that are turned away, under the scope of the reason: `authn` when nobody knows who they are, `authorization`
 * when they may not have what they ask for, else the scope of the service.
 */
export function refusalLog(otherwise: ScopeName): (peer: string, error: CtlError, what: string) => void {
  const [authn, authorization, others] = (['authn', 'authorization', otherwise] as const).map((scope) =>
    limitedByPeer((message) => getScope(scope).warn(message)),
  );
  return (peer, error, what) => {
    const { code } = error;
    const log = code === 'unauthenticated' ? authn : code === 'permission_denied' ? authorization : others;
    log?.(peer, `refused ${what} of ${peer}: ${error.oneLine()}`);
  };
}

export function xdsObserver(metrics: Metrics): XdsObserver {
  const log = getScope('ads');
  const attributes = getScope('attributes');
  const refused = refusalLog('ads');
  const tooLarge = limitedByPeer((message) => log.error(message));
  const unknownTypes = limited((message) => log.info(message));
  const faults = limited((message) => log.error(message));
  const writes = metrics.ctl_stage_seconds.series({ stage: 'write' });
  const pushTime = pushTimes(metrics);
  const pushes = new PushCounts(metrics);
  return {
    connected: (connectionId, node) => {
      metrics.ctl_xds.inc();
      log.info(`connected ${connectionId}`);
      if (!attributes.enabled('debug')) return;
      const { type, namespace, serviceAccount, addresses, labels, network, locality, interception, version } = node;
      const read = { type, namespace, serviceAccount, addresses, labels, network, locality, interception, version };
      attributes.debug(`attributes of ${connectionId}`, read);
    },
    disconnected: (connectionId) => {
      metrics.ctl_xds.dec();
      log.info(`disconnected ${connectionId}`);
    },
    pushed: ({ type, connectionId, bytes, seconds }) => {
      pushes.count(type);
      pushTime(type).observe(seconds);
      writes.observe(seconds);
      if (log.enabled('debug')) log.debug('pushed', { type, connectionId, bytes });
    },
    sendFailed: (type) => metrics.ctl_xds_pushes.inc({ type: `${type}_senderr` }),
    rejected: ({ type, connectionId, message, quarantined }) => {
      metrics.ctl_total_xds_rejects.inc({ type });
      const kept = quarantined.length === 0 ? '' : `; kept back: ${quarantined.join(', ')}`;
      log.warn(`${connectionId} rejects ${type}: ${message.slice(0, MAX_LOGGED)}${kept}`);
    },
    expiredNonce: (type, connectionId) => {
      metrics.ctl_xds_expired_nonce.inc();
      log.debug('expired nonce', { type, connectionId });
    },
    writeTimeout: (connectionId) => {
      metrics.ctl_xds_write_timeout.inc();
      log.warn(`${connectionId} does not read what it is sent: its stream is closed`);
    },
    requestTooLarge: (peer, details) => {
      metrics.ctl_total_xds_internal_errors.inc();
      tooLarge(peer, `a request of ${peer} is too large, raise MESH_GPRC_MAXRECVMSGSIZE: ${details}`);
    },
    refused: (peer, error: CtlError) => refused(peer, error, 'a stream'),
    unknownType: (connectionId, typeUrl) =>
      unknownTypes(connectionId, `${connectionId} asks for ${typeUrl.slice(0, 200)}, not served here`),
    internalError: (error, connectionId) => {
      metrics.ctl_total_xds_internal_errors.inc();
      const message = messageOf(error);
      faults(message, `internal error on ${connectionId}: ${message}`);
    },
  };
}

export function certificateObserver(metrics: Metrics): CertificateObserver {
  const log = getScope('serverca');
  const refused = refusalLog('serverca');
  const faults = limited((message) => log.error(message));
  return {
    requested: () => metrics.ca_server_csr_count.inc(),
    unfitIdentity: () => metrics.ca_server_id_extraction_err_count.inc(),
    issued: ({ identity, by }) => {
      metrics.ca_server_success_cert_issuance_count.inc();
      log.debug('issued a certificate', { identity: spiffeUri(identity), by });
    },
    refused: (peer, error) => refused(peer, error, 'a request'),
    internalError: (error) => faults(messageOf(error), `internal error: ${messageOf(error)}`),
  };
}

/** Changes that the model cannot take: a fault of ours, for what is wrong in a resource is found by validation. */
export function publishFaults(metrics: Metrics): (fault: PublishFault) => void {
  return ({ key, message }) => {
    metrics.ctl_xds_push_context_errors.inc();
    getScope('model').error(`${key} cannot be taken over, what was in force stays: ${message}`);
  };
}

/** Lines about name conflicts in the log for one publication: a relist of a large mesh may bring thousands. */
const MAX_CONFLICT_LINES = 20;

/** Documents that claim names of others, each when it begins to. */
export function logNameConflicts(conflicts: readonly NameConflict[]): void {
  const log = getScope('model');
  for (const { message } of conflicts.slice(0, MAX_CONFLICT_LINES)) log.warn(message);
  const more = conflicts.length - MAX_CONFLICT_LINES;
  if (more > 0) log.warn(`${more} more name conflicts, see /debug/configz`);
}

/**
 * One line where endpoints stand only in documents of the kind that CTL_USE_ENDPOINT_SLICE leaves out, and none when it
 * is over.
 */
export function ignoredEndpointsLog(): (snapshot: Snapshot) => void {
  let said = false;
  return (snapshot) => {
    const slices = snapshot.settings.useEndpointSlice;
    const [read, ignored] = slices
      ? (['EndpointSlice', 'Endpoints'] as const)
      : (['Endpoints', 'EndpointSlice'] as const);
    const { size } = snapshot.resources(ignored);
    const applies = size > 0 && snapshot.resources(read).size === 0;
    if (applies && !said) {
      const rest = `services get no endpoints from ${size} of kind ${ignored}, and there are none of kind ${read}`;
      getScope('model').warn(`CTL_USE_ENDPOINT_SLICE is ${slices}: ${rest}`);
    }
    said = applies;
  };
}

export function debounceHooks(metrics: Metrics): DebounceHooks {
  return {
    onChange: () => metrics.cfg_runtime_strategy_on_change_total.inc(),
    onTimerReset: () => metrics.cfg_runtime_strategy_timer_resets_total.inc(),
    onQuiesce: () => metrics.cfg_runtime_strategy_timer_quiesce_reached_total.inc(),
    onMaxTime: () => metrics.cfg_runtime_strategy_timer_max_time_reached_total.inc(),
    onError: (error) => {
      metrics.ctl_xds_push_context_errors.inc();
      getScope('model').error(`publishing failed: ${messageOf(error)}`);
    },
  };
}

const REGISTRY_KINDS: ReadonlySet<string> = new Set(CORE_KINDS);

/** Counts what sources tell. */
export class SourceMeter {
  readonly #metrics: Metrics;
  #lastEventAt: number | undefined;

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
  }

  received(events: readonly ToldEvent[]): void {
    const metrics = this.#metrics;
    for (const { effect, kind, eventTime } of events) {
      if (this.#lastEventAt !== undefined) {
        metrics.cfg_runtime_processor_event_span_duration_milliseconds.observe(
          Math.max(0, eventTime - this.#lastEventAt),
        );
      }
      this.#lastEventAt = eventTime;
      metrics.cfg_runtime_processor_events_processed_total.inc();
      if (effect === 'invalid') metrics.cfg_source_orch_event_error_total.inc();
      else metrics.cfg_source_orch_event_success_total.inc();
      if (kind === undefined) continue;
      const counter = REGISTRY_KINDS.has(kind) ? metrics.ctl_orch_reg_events : metrics.ctl_orch_cfg_events;
      counter.inc({ type: kind, event: effect });
    }
  }

  applied(summary: AppliedSummary): void {
    const { ctl_total_orch_object_errors, ctl_total_rejected_configs, ctl_inbound_updates } = this.#metrics;
    if (summary.newProblems > 0) {
      ctl_total_orch_object_errors.inc(summary.newProblems);
      ctl_total_rejected_configs.inc(summary.newProblems);
    }
    const byType = new Map<string, number>();
    for (const key of summary.changed) {
      const type = updateType(key);
      byType.set(type, (byType.get(type) ?? 0) + 1);
    }
    for (const [type, count] of byType) ctl_inbound_updates.inc({ type }, count);
  }
}

/** What `ctl_inbound_updates` calls a change: `eds`, `svc` or `config`. */
function updateType(key: string): 'eds' | 'svc' | 'config' {
  const kind = key.slice(0, key.indexOf('/'));
  if (kind === 'Endpoints' || kind === 'EndpointSlice' || kind === 'Pod' || kind === 'WorkloadEntry') return 'eds';
  return kind === 'Service' || kind === 'ServiceEntry' ? 'svc' : 'config';
}
