/** Observers of other modules: they turn events into metrics and log lines. The modules know neither. */
import { systemClock } from '../../core/clock.ts';
import { type CtlError, messageOf } from '../../core/errors.ts';
import { spiffeUri } from '../../core/identity.ts';
import type { XdsType } from '../../core/xds-types.ts';
import { getScope, type LimitedLog, limitLog, type ScopeName } from '../../logging/index.ts';
import type { NameConflict, Snapshot } from '../../model/index.ts';
import type { Metrics, Series } from '../../observe/index.ts';
import type { EngineObserver } from '../../push/index.ts';
import { CORE_KINDS } from '../../resources/index.ts';
import type { CertificateObserver } from '../../security/index.ts';
import type { AppliedSummary, CountedEvent, DebounceHooks } from '../../store/index.ts';
import { isIdentityKey, type XdsObserver } from '../../xds/index.ts';
import type { PublishProblem } from './publisher.ts';
import type { PushLog } from './push-log.ts';

/** The largest number of characters of a proxy's message in the log. */
const MAX_LOGGED = 1000;

/** Lines about withheld resources of one trial: an EnvoyFilter may spoil all clusters. */
const MAX_WITHHELD_LINES = 5;

/** A rate-limited log for lines that callers cause. */
function limited(write: (message: string) => void): LimitedLog {
  return limitLog({ write, later: (ms, run) => void systemClock.setTimer(ms, run) });
}

/** The same with the limit for the address of a peer, because each connection has another port. */
export function limitedByPeer(write: (message: string) => void): LimitedLog {
  const log = limited(write);
  return (peer, message) => log(peer.replace(/:\d+$/, ''), message);
}

/** The same for callers: lines about callers without a credential do not displace those about other callers. */
function limitedByCaller(write: (message: string) => void): LimitedLog {
  const [authenticated, others] = [limited(write), limited(write)];
  return (caller, message) => (isIdentityKey(caller) ? authenticated : others)(caller, message);
}

/** @param onGenerated called after the result of a generation is stored */
export function engineObserver(metrics: Metrics, pushes: PushLog, onGenerated: () => void = () => {}): EngineObserver {
  const log = getScope('ads');
  const withheld = limited((message) => log.warn(message));
  const labelsIgnored = limited((message) => log.warn(message));
  const pushTime = pushTimes(metrics);
  const buildErrors = (types: Iterable<XdsType>): void => {
    for (const type of types) {
      metrics.ctl_xds_pushes.inc({ type: `${type}_builderr` });
      metrics.ctl_xds_push_errors_total.inc({ type, reason: 'build' });
    }
  };
  // Looked up once, because each push observes values for every proxy.
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
      log.error(`generation failed: ${message}`);
    },
    labelsIgnored: (service, labels) =>
      labelsIgnored(
        service,
        `failoverPriority of ${service} does not compare ${labels.join(', ')}: ` +
          'proxies would need too many different lists of endpoints (docs/limits.md)',
      ),
    viewFailed: ({ view, failures, error, retryInMs }, types) => {
      buildErrors(types);
      metrics.ctl_total_xds_internal_errors.inc();
      const message = `cannot generate ${view}, its proxies keep their configuration: ${error}`;
      // Logged once as an error; /debug/push_status shows it until the view is generated.
      if (failures === 1) log.error(`${message}; retried with growing delays`);
      else log.debug(message, { failures, retryInMs });
    },
    tried: (result, milliseconds) => metrics.ctl_push_canary_seconds.observe(milliseconds / 1000, { result }),
    withheld: (resources, view) => {
      for (const { type, name, proxy, message } of resources.slice(0, MAX_WITHHELD_LINES))
        withheld(
          view,
          `${proxy} rejects ${type} ${name}, which is withheld from the other proxies of ${view}: ` +
            message.slice(0, MAX_LOGGED),
        );
      const more = resources.length - MAX_WITHHELD_LINES;
      if (more > 0) withheld(view, `${more} more resources are withheld from proxies of ${view}, see /debug/withheldz`);
    },
    viewRecovered: (view, failures) => log.info(`${view} is generated again, after ${failures} failed attempts`),
  };
}

/** The series of `ctl_xds_push_time`, for generating a type and for writing it to a proxy. */
function pushTimes(metrics: Metrics): (type: XdsType) => Series {
  return seriesByType((type) => metrics.ctl_xds_push_time.series({ type }));
}

/** Looks up the series of each type once. */
function seriesByType(of: (type: XdsType) => Series): (type: XdsType) => Series {
  const known: Partial<Record<XdsType, Series>> = {};
  return (type) => {
    const series = known[type] ?? of(type);
    known[type] = series;
    return series;
  };
}

/**
 * Adds the pushes of one turn of the event loop to the metric at once: one change can cause pushes to thousands of
 * proxies.
 */
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
 * Logs refused callers in the scope of the reason: `authn` for callers that are not authenticated, `authorization` for
 * callers without permission, else the scope of the service.
 */
export function refusalLog(otherwise: ScopeName): (peer: string, error: CtlError, what: string) => void {
  const [authn, authorization, others] = (['authn', 'authorization', otherwise] as const).map((scope) =>
    limitedByPeer((message) => getScope(scope).warn(message)),
  );
  return (peer, error, what) => {
    const { code } = error;
    const log = code === 'unauthenticated' ? authn : code === 'permission_denied' ? authorization : others;
    log?.(peer, `refused ${what} from ${peer}: ${error.oneLine()}`);
  };
}

function askObserver(metrics: Metrics): XdsObserver['asked'] {
  return ({ names = 0, unknown = 0, learned = 0, missed = 0, answered = [] }) => {
    metrics.ctl_xds_on_demand_names_total.inc(names);
    metrics.ctl_xds_on_demand_unknown_names_total.inc(unknown);
    metrics.ctl_xds_on_demand_learned_hosts_total.inc(learned);
    metrics.ctl_xds_on_demand_learned_misses_total.inc(missed);
    for (const seconds of answered) metrics.ctl_xds_on_demand_answer_seconds.observe(seconds);
  };
}

export function xdsObserver(metrics: Metrics): XdsObserver {
  const log = getScope('ads');
  const info = (): LimitedLog => limitedByCaller((message) => log.info(message));
  const warn = (): LimitedLog => limitedByCaller((message) => log.warn(message));
  const attributes = getScope('attributes');
  const refused = refusalLog('ads');
  const tooLarge = limitedByPeer((message) => log.error(message));
  const [connections, ends, unknownTypes] = [info(), info(), info()];
  const [rejections, timeouts] = [warn(), warn()];
  const internalErrors = limited((message) => log.error(message));
  const writes = metrics.ctl_stage_seconds.series({ stage: 'write' });
  const pushTime = pushTimes(metrics);
  const sizes = seriesByType((type) => metrics.ctl_xds_config_size_bytes.series({ type }));
  const pushes = new PushCounts(metrics);
  return {
    connected: ({ connectionId, caller }, node) => {
      metrics.ctl_xds.inc();
      connections(caller, `connected ${connectionId}`);
      if (!attributes.enabled('debug')) return;
      const { type, namespace, serviceAccount, addresses, labels, network, locality, interception, version } = node;
      const read = { type, namespace, serviceAccount, addresses, labels, network, locality, interception, version };
      attributes.debug(`attributes of ${connectionId}`, read);
    },
    disconnected: ({ connectionId, caller }) => {
      metrics.ctl_xds.dec();
      ends(caller, `disconnected ${connectionId}`);
    },
    pushed: ({ type, connectionId, bytes, compressed, seconds }) => {
      if (compressed !== undefined) {
        metrics.ctl_xds_compression_input_bytes_total.inc(bytes);
        metrics.ctl_xds_compression_output_bytes_total.inc(compressed);
      }
      pushes.count(type);
      pushTime(type).observe(seconds);
      writes.observe(seconds);
      sizes(type).observe(bytes);
      if (log.enabled('debug')) log.debug('pushed', { type, connectionId, bytes });
    },
    sendFailed: (type, reason) => {
      metrics.ctl_xds_pushes.inc({ type: `${type}_senderr` });
      metrics.ctl_xds_push_errors_total.inc({ type, reason });
    },
    rejected: ({ type, connectionId, caller, message, quarantined, named }) => {
      metrics.ctl_total_xds_rejects.inc({ type });
      const more = quarantined > named.length ? ` and ${quarantined - named.length} more` : '';
      const kept = quarantined === 0 ? '' : `; quarantined: ${named.join(', ')}${more}`;
      rejections(caller, `${connectionId} rejects ${type}: ${message.slice(0, MAX_LOGGED)}${kept}`);
    },
    asked: askObserver(metrics),
    expiredNonce: (type, connectionId) => {
      metrics.ctl_xds_expired_nonce.inc();
      log.debug('expired nonce', { type, connectionId });
    },
    writeTimeout: ({ connectionId, caller }) => {
      metrics.ctl_xds_write_timeout.inc();
      timeouts(caller, `${connectionId} does not read its responses: its stream is closed`);
    },
    requestTooLarge: (peer, details) => {
      metrics.ctl_total_xds_internal_errors.inc();
      tooLarge(peer, `a request from ${peer} is too large, raise MESH_GPRC_MAXRECVMSGSIZE: ${details}`);
    },
    refused: (peer, error: CtlError) => refused(peer, error, 'a stream'),
    endedEarly: (reason) => metrics.ctl_grpc_connections_ended_early.inc({ reason }),
    unknownType: ({ connectionId, caller }, typeUrl) =>
      unknownTypes(caller, `${connectionId} requests the unknown type ${typeUrl.slice(0, 200)}`),
    internalError: (error, connectionId) => {
      metrics.ctl_total_xds_internal_errors.inc();
      const message = messageOf(error);
      internalErrors(message, `internal error on ${connectionId}: ${message}`);
    },
  };
}

export function certificateObserver(metrics: Metrics): CertificateObserver {
  const log = getScope('serverca');
  const refused = refusalLog('serverca');
  const internalErrors = limited((message) => log.error(message));
  return {
    requested: () => metrics.ca_server_csr_count.inc(),
    unfitIdentity: () => metrics.ca_server_id_extraction_err_count.inc(),
    issued: ({ identity, by }) => {
      metrics.ca_server_success_cert_issuance_count.inc();
      log.debug('issued a certificate', { identity: spiffeUri(identity), by });
    },
    refused: (peer, error) => refused(peer, error, 'a request'),
    internalError: (error) => internalErrors(messageOf(error), `internal error: ${messageOf(error)}`),
  };
}

/** Changes that the model cannot apply: an internal error, because validation finds problems of resources. */
export function publishProblems(metrics: Metrics): (problem: PublishProblem) => void {
  return ({ key, message }) => {
    metrics.ctl_xds_push_context_errors.inc();
    getScope('model').error(`${key} cannot be applied, the previous version stays in force: ${message}`);
  };
}

/** Lines about name conflicts for one publication: a relist of a large mesh may have thousands. */
const MAX_CONFLICT_LINES = 20;

/** Logs documents with names that belong to others, each when it appears. */
export function logNameConflicts(conflicts: readonly NameConflict[]): void {
  const log = getScope('model');
  for (const { message } of conflicts.slice(0, MAX_CONFLICT_LINES)) log.warn(message);
  const more = conflicts.length - MAX_CONFLICT_LINES;
  if (more > 0) log.warn(`${more} more name conflicts, see /debug/configz`);
}

/**
 * One warning when all endpoints are in documents of the kind that CTL_USE_ENDPOINT_SLICE excludes.
 */
export function ignoredEndpointsLog(): (snapshot: Snapshot) => void {
  let warned = false;
  return (snapshot) => {
    const slices = snapshot.settings.useEndpointSlice;
    const [read, ignored] = slices
      ? (['EndpointSlice', 'Endpoints'] as const)
      : (['Endpoints', 'EndpointSlice'] as const);
    const applies = snapshot.resources(ignored).size > 0 && snapshot.resources(read).size === 0;
    if (applies && !warned) {
      const why = `only ${read} objects are read and all endpoints are in ${ignored} objects`;
      getScope('model').warn(`CTL_USE_ENDPOINT_SLICE is ${slices}: services have no endpoints, because ${why}`);
    }
    warned = applies;
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

/** Counts the events of sources. */
export class SourceMeter {
  readonly #metrics: Metrics;
  #lastEventAt: number | undefined;

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
  }

  received(events: readonly CountedEvent[]): void {
    const metrics = this.#metrics;
    for (const { effect, kind, eventTime } of events) {
      if (this.#lastEventAt !== undefined) {
        metrics.cfg_runtime_processor_event_span_duration_milliseconds.observe(
          Math.max(0, eventTime - this.#lastEventAt),
        );
      }
      this.#lastEventAt = eventTime;
      metrics.cfg_runtime_processor_events_processed_total.inc();
      if (effect === 'invalid') {
        metrics.cfg_source_orch_event_error_total.inc();
        metrics.cfg_source_orch_dynamic_converter_failure_total.inc();
      } else metrics.cfg_source_orch_event_success_total.inc();
      if (effect === 'add' || effect === 'update') metrics.cfg_source_orch_dynamic_converter_success_total.inc();
      if (kind === undefined) continue;
      const counter = REGISTRY_KINDS.has(kind) ? metrics.ctl_orch_reg_events : metrics.ctl_orch_cfg_events;
      counter.inc({ type: kind, event: effect });
    }
  }

  /** Documents are valid, or look as if they were meant for the mesh, and have no effect. */
  readonly ignored = (documents: number): void => {
    this.#metrics.ctl_total_rejected_configs.inc(documents);
  };

  applied(summary: Omit<AppliedSummary, 'failure'>): void {
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

/** The type of a change in `ctl_inbound_updates`: `eds`, `svc` or `config`. */
function updateType(key: string): 'eds' | 'svc' | 'config' {
  const kind = key.slice(0, key.indexOf('/'));
  if (kind === 'Endpoints' || kind === 'EndpointSlice' || kind === 'Pod' || kind === 'WorkloadEntry') return 'eds';
  return kind === 'Service' || kind === 'ServiceEntry' ? 'svc' : 'config';
}
