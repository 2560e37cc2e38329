/**
 * Rules for Prometheus (https://prometheus.io/docs/prometheus/latest/configuration/recording_rules/): their types and
 * YAML.
 */
import { stringify } from 'yaml';

export interface Alert {
  readonly alert: string;
  readonly expr: string;
  /** How long the expression has to be true: `5m`. */
  readonly for: string;
  /** critical: traffic or changes are at risk now; warning: somebody should look today. */
  readonly severity: 'critical' | 'warning';
  /** One sentence. `{{ $labels.type }}` and `{{ $value }}` are replaced by Prometheus. */
  readonly summary: string;
  /** What to look at. */
  readonly description: string;
}

export interface RecordingRule {
  /** The metric that the rule makes. */
  readonly record: string;
  readonly expr: string;
  readonly labels?: Readonly<Record<string, string>>;
}

/** A file of rules with one group. */
export function rulesYaml(head: string, name: string, rules: readonly (Alert | RecordingRule)[]): string {
  const groups = [{ name, rules: rules.map(ruleOf) }];
  return `${head}\n${stringify({ groups }, { lineWidth: 0 })}`;
}

function ruleOf(rule: Alert | RecordingRule): object {
  if ('record' in rule) return rule;
  const { severity, summary, description, ...rest } = rule;
  return { ...rest, labels: { severity }, annotations: { summary, description } };
}
