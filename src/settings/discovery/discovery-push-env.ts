/** Environment variables of ctl-discovery for pushes: when they begin, what proxies are sent, what is remembered. */
import type { EnvTable } from '../env-table.ts';

export const discoveryPushEnv = {
  CTL_DEBOUNCE_AFTER: {
    setting: 'debounceAfterMs',
    type: 'duration',
    default: '100ms',
    min: 0,
    meaning:
      'Delay added to config or registry events for debouncing; a push happens when no new change arrives in that ' +
      'period, otherwise delay continues up to CTL_DEBOUNCE_MAX.',
  },
  CTL_DEBOUNCE_MAX: {
    setting: 'debounceMaxMs',
    type: 'duration',
    default: '10s',
    min: 0,
    meaning: 'Maximum time to wait for events while debouncing before a push is forced.',
  },
  CTL_ENABLE_EDS_DEBOUNCE: {
    setting: 'enableEdsDebounce',
    type: 'boolean',
    default: true,
    meaning: 'Includes endpoint-discovery pushes in debouncing (fewer, possibly delayed pushes).',
  },
  CTL_PUSH_THROTTLE: {
    setting: 'pushThrottle',
    type: 'integer',
    default: 100,
    min: 1,
    unit: 'pushes',
    meaning: 'Maximum number of concurrent pushes. A push ends when its bytes are handed to the socket.',
  },
  CTL_PUSH_CANARY: {
    setting: 'pushCanary',
    type: 'integer',
    default: 20,
    min: -1,
    unit: 'proxies',
    meaning:
      'Where more proxies than this have the same configuration, changed resources are sent to two of them first, ' +
      'and those that Envoy rejects are withheld from the others; -1 sends changes to all proxies at once.',
  },
  CTL_SIDECAR_CONFIGURATION: {
    setting: 'sidecarConfiguration',
    type: 'string',
    default: 'all',
    meaning:
      'What sidecars get of the services that they see: all; on-demand (from Envoy 1.40 on): those that their ' +
      'applications call, from the first call on; or learned: also those that other sidecars of the same ' +
      'configuration have called. The label sidecar.mesh.io/configuration of a Namespace or Pod overrides it.',
  },
  CTL_XDS_COMPRESSION: {
    setting: 'xdsCompression',
    type: 'boolean',
    default: true,
    meaning:
      'Whether configuration is compressed for clients that accept gzip: the XDS proxy of the agent (XDS_LOCAL) and ' +
      'clients of gRPC libraries, but not Envoy itself.',
  },
  CTL_GENERATE_WORKERS: {
    setting: 'generateWorkers',
    type: 'integer',
    default: -1,
    min: -1,
    unit: 'threads',
    meaning:
      'Worker threads that generate configuration; -1 chooses the number for the machine, 0 generates on the main ' +
      'thread.',
  },
  CTL_ENABLE_CONFIG_DISTRIBUTION_TRACKING: {
    setting: 'enableConfigDistributionTracking',
    type: 'boolean',
    default: true,
    meaning:
      'Assigns meaningful nonces to each proxy config message and allows querying which proxy has which config from ' +
      'the debug interface.',
  },
  CTL_DISTRIBUTION_HISTORY_RETENTION: {
    setting: 'distributionHistoryRetentionMs',
    type: 'duration',
    default: '1m0s',
    min: 0,
    meaning: 'How long old versions of distributed config are tracked.',
  },
  CTL_DEBUG_ADSZ_CONFIG: {
    setting: 'debugAdszConfig',
    type: 'boolean',
    default: false,
    meaning: 'Adds the configuration of each proxy to /debug/adsz.',
  },
} as const satisfies EnvTable;
