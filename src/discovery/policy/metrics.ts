/** Sets the metrics of the policy component from what its thread reports. */
import type { Metrics } from '../../observe/index.ts';
import type { FromPolicyThread } from '../../policy/index.ts';

type Configured = Extract<FromPolicyThread, { kind: 'configured' }>;
type Stats = Extract<FromPolicyThread, { kind: 'stats' }>;

export function setConfigured(metrics: Metrics, { counts, transition, varieties }: Configured): void {
  metrics.plc_config_attributes_total.set(counts.attributes);
  metrics.plc_config_adapter_info_configs_total.set(counts.adapters);
  metrics.plc_config_adapter_info_config_errors_total.set(counts.adapterErrors);
  metrics.plc_config_handler_configs_total.set(counts.handlers);
  metrics.plc_config_handler_validation_error_total.set(counts.handlerErrors);
  metrics.plc_config_instance_configs_total.set(counts.instances);
  metrics.plc_config_instance_config_errors_total.set(counts.instanceErrors);
  metrics.plc_config_rule_configs_total.set(counts.rules);
  metrics.plc_config_rule_config_errors_total.set(counts.ruleErrors);
  metrics.plc_config_rule_config_match_error_total.set(counts.ruleMatchErrors);
  metrics.plc_config_template_configs_total.set(counts.templates);
  metrics.plc_config_template_config_errors_total.set(counts.templateErrors);
  metrics.plc_config_unsatisfied_action_handler_total.set(counts.unsatisfiedActions);
  metrics.plc_handler_new_handlers_total.set(transition.opened);
  metrics.plc_handler_reused_handlers_total.set(transition.reused);
  metrics.plc_handler_handler_build_failures_total.set(transition.openFailures);
  for (const [variety, count] of Object.entries(varieties))
    metrics.plc_dispatcher_destinations_per_variety_total.set({ variety }, count);
}

export function addStats(metrics: Metrics, { runtime, activity, closed }: Stats): void {
  metrics.plc_handler_daemons_total.set(activity.daemons);
  metrics.plc_handler_workers_total.set(activity.workers);
  metrics.plc_handler_closed_handlers_total.set(closed.handlers);
  metrics.plc_handler_handler_close_failures_total.set(closed.failures);
  if (runtime === undefined) return;
  for (const value of runtime.destinations) metrics.plc_dispatcher_destinations_per_request.observe(value);
  for (const value of runtime.instances) metrics.plc_dispatcher_instances_per_request.observe(value);
  for (const { adapter, failed, seconds } of runtime.dispatches) {
    metrics.plc_runtime_dispatches_total.inc({ adapter, error: String(failed) });
    metrics.plc_runtime_dispatch_duration_seconds.observe(seconds, { adapter });
  }
}
