/**
 * The metrics of ctl-agent: name, type, meaning and labels of each (specification: ctl-agent "Metrics exported by the agent"). A
 * metric enters the table when what it measures exists. What the specification lists for both programs and only the discovery
 * program does (pushes, webhooks, the service registry) is that program's.
 */

interface AgentMetricSpec {
  /** Sum only grows, LastValue is what it is now. */
  readonly type: 'Sum' | 'LastValue';
  readonly meaning: string;
  readonly labels?: readonly string[];
}

export const AGENT_METRICS = {
  mesh_build: { type: 'LastValue', meaning: 'Component build info.', labels: ['component', 'version', 'revision'] },
  scrapes_total: { type: 'Sum', meaning: 'Scrapes.' },
  scrape_failures_total: { type: 'Sum', meaning: 'Failed scrapes.', labels: ['type'] },
  envoy_starts_total: { type: 'Sum', meaning: 'Starts of Envoy, the first one included.' },
} as const satisfies Readonly<Record<string, AgentMetricSpec>>;

export type AgentMetricName = keyof typeof AGENT_METRICS;
