/** The board of the cost of the control plane: CPU, memory, and where the time of a push goes. */
import { type Board, chart, ofControlPlanes, type Query, quantile } from './board.ts';

/** A value of each replica. */
const each = (expr: string): Query => ({ expr: ofControlPlanes(expr), legend: '{{instance}}' });

export const PERFORMANCE: Board = {
  uid: 'mesh-performance',
  title: 'Mesh / Performance',
  rows: [
    {
      title: 'Process',
      panels: [
        chart('CPU', 'short', 'Cores in use, all threads.', each('rate(process_cpu_seconds_total[$__rate_interval])')),
        chart('Memory', 'bytes', 'Resident memory.', each('process_resident_memory_bytes')),
        chart('Heap', 'bytes', 'JavaScript objects of the main thread.', each('nodejs_heap_size_used_bytes')),
        chart('Buffers', 'bytes', 'Memory outside the heap: encoded resources.', each('nodejs_external_memory_bytes')),
        chart(
          'Event loop',
          's',
          'Delay of the main thread: above 0.1 s, everything waits.',
          each('nodejs_eventloop_lag_p99_seconds'),
        ),
        chart('Garbage collection', 'percentunit', 'Part of the time of the main thread.', {
          expr: `sum by (instance) (${ofControlPlanes('rate(nodejs_gc_duration_seconds_sum[$__rate_interval])')})`,
          legend: '{{instance}}',
        }),
        chart('Open files', 'short', 'Each proxy has a connection.', each('process_open_fds')),
        chart('Memory by proxy', 'bytes', 'Resident memory divided by connected proxies.', {
          expr: 'process_resident_memory_bytes / on (job, instance) (ctl_xds > 0)',
          legend: '{{instance}}',
        }),
        chart('Scrapes', 'ops', 'Each scrape computes the gauges.', each('rate(scrapes_total[$__rate_interval])')),
      ],
    },
    {
      title: 'Pushes',
      panels: [
        chart('Stages, p99', 's', 'Where the time of a push goes.', quantile(0.99, 'ctl_stage_seconds', 'stage')),
        chart('Time by stage', 'percentunit', 'Seconds of work a second.', {
          expr: 'sum by (stage) (rate(ctl_stage_seconds_sum[$__rate_interval]))',
          legend: '{{stage}}',
        }),
        chart('Generation and writing', 's', 'By type.', quantile(0.99, 'ctl_xds_push_time', 'type')),
        chart('Wait in the queue', 's', 'Of a proxy.', quantile(0.99, 'ctl_proxy_queue_time')),
        chart('Queue', 'short', 'Proxies that wait for their turn.', each('ctl_push_queue_length')),
        chart('Trials by canaries', 'ops', 'By result; released: not answered in time.', {
          expr: 'sum by (result) (rate(ctl_push_canary_seconds_count[$__rate_interval])) or vector(0)',
          legend: '{{result}}',
        }),
      ],
    },
    {
      title: 'Snapshots',
      panels: [
        chart(
          'Snapshots',
          'ops',
          'Published changes.',
          each('rate(cfg_runtime_processor_snapshots_published_total[$__rate_interval])'),
        ),
        chart(
          'Events',
          'ops',
          'Events of sources.',
          each('rate(cfg_runtime_processor_events_processed_total[$__rate_interval])'),
        ),
        chart('OpenTelemetry', 'ops', 'Data points and spans that were sent, and dropped.', {
          expr: 'sum by (signal, result) (rate(ctl_otlp_items_total[$__rate_interval]))',
          legend: '{{signal}} {{result}}',
        }),
        chart(
          'Debounce',
          'ops',
          'quiet: changes had ended; limit: they did not end, and a snapshot was published nevertheless.',
          {
            expr: 'sum(rate(cfg_runtime_strategy_timer_quiesce_reached_total[$__rate_interval]))',
            legend: 'quiet',
          },
          {
            expr: 'sum(rate(cfg_runtime_strategy_timer_max_time_reached_total[$__rate_interval]))',
            legend: 'limit',
          },
        ),
      ],
    },
  ],
};
