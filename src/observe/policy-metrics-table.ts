/** The metrics of the policy component. */
import type { MetricSpec } from './metric-spec.ts';

const SECONDS = [0.00001, 0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const COUNTS = [0, 1, 2, 3, 5, 10, 20, 50, 100];

export const POLICY_METRICS = {
  // What the documents in force have; set with each configuration.
  plc_config_attributes_total: { type: 'LastValue', meaning: 'Known attributes.' },
  plc_config_adapter_info_configs_total: { type: 'LastValue', meaning: 'Known adapters in the current config.' },
  plc_config_adapter_info_config_errors_total: {
    type: 'LastValue',
    meaning: 'Errors processing adapter info config.',
  },
  plc_config_handler_configs_total: { type: 'LastValue', meaning: 'Known handlers.' },
  plc_config_handler_validation_error_total: { type: 'LastValue', meaning: 'Errors from handler validation.' },
  plc_config_instance_configs_total: { type: 'LastValue', meaning: 'Known instances.' },
  plc_config_instance_config_errors_total: { type: 'LastValue', meaning: 'Errors processing instance config.' },
  plc_config_rule_configs_total: { type: 'LastValue', meaning: 'Known rules.' },
  plc_config_rule_config_errors_total: { type: 'LastValue', meaning: 'Errors processing rule config.' },
  plc_config_rule_config_match_error_total: {
    type: 'LastValue',
    meaning: 'Rule conditions that could not be parsed.',
  },
  plc_config_template_configs_total: { type: 'LastValue', meaning: 'Known templates.' },
  plc_config_template_config_errors_total: { type: 'LastValue', meaning: 'Errors processing template config.' },
  plc_config_unsatisfied_action_handler_total: {
    type: 'LastValue',
    meaning: 'Actions failed because handlers were unavailable.',
  },

  // The handlers of the last change of the configuration.
  plc_handler_new_handlers_total: { type: 'LastValue', meaning: 'Handlers newly created during transition.' },
  plc_handler_reused_handlers_total: { type: 'LastValue', meaning: 'Handlers reused during transition.' },
  plc_handler_closed_handlers_total: { type: 'LastValue', meaning: 'Handlers closed during config transition.' },
  plc_handler_handler_build_failures_total: {
    type: 'LastValue',
    meaning: 'Handlers that failed creation during transition.',
  },
  plc_handler_handler_close_failures_total: {
    type: 'LastValue',
    meaning: 'Errors closing handlers during transition.',
  },
  plc_handler_daemons_total: {
    type: 'LastValue',
    meaning: 'Active daemon routines in an adapter environment.',
  },
  plc_handler_workers_total: {
    type: 'LastValue',
    meaning: 'Active worker routines in an adapter environment.',
  },

  // Requests and records.
  plc_dispatcher_destinations_per_request: {
    type: 'Distribution',
    meaning: 'Handlers dispatched per request.',
    buckets: COUNTS,
  },
  plc_dispatcher_instances_per_request: {
    type: 'Distribution',
    meaning: 'Instances created per request.',
    buckets: COUNTS,
  },
  plc_dispatcher_destinations_per_variety_total: {
    type: 'LastValue',
    meaning: 'Adapter destinations by template variety.',
    labels: ['variety'],
  },
  plc_runtime_dispatches_total: {
    type: 'Count',
    meaning: 'Adapter dispatches.',
    labels: ['adapter', 'error'],
  },
  plc_runtime_dispatch_duration_seconds: {
    type: 'Distribution',
    meaning: 'Seconds per adapter dispatch.',
    labels: ['adapter'],
    buckets: SECONDS,
  },
} as const satisfies Readonly<Record<string, MetricSpec>>;
