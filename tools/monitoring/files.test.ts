/**
 * The boards and rules in the chart are those of this folder; `UPDATE_MONITORING=1` writes them. promtool checks the
 * rules and runs the examples of the alerts. `test/e2e/agent-metrics.test.ts` asks a real Prometheus all queries.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { stringify } from 'yaml';
import { AGENT_METRICS } from '../../src/agent/metrics/table.ts';
import { METRICS } from '../../src/observe/index.ts';
import { ALERT_CASES, type AlertCase } from './alert-cases.ts';
import { ALERTS } from './alerts.ts';
import { BOARDS, MONITORING_FOLDER, monitoringFiles } from './files.ts';
import { PEER_NAMES } from './peer-names.ts';

const FOLDER = fileURLToPath(MONITORING_FOLDER);
const PROMTOOL = join(dirname(process.env.PROMETHEUS_PATH ?? ''), 'promtool');
const skip = existsSync(PROMTOOL) ? false : 'Prometheus is not unpacked';

test('the boards and rules of the chart are those of tools/monitoring', () => {
  const wanted = monitoringFiles();
  if (process.env.UPDATE_MONITORING === '1') {
    rmSync(FOLDER, { recursive: true, force: true });
    for (const [name, text] of wanted) {
      mkdirSync(dirname(join(FOLDER, name)), { recursive: true });
      writeFileSync(join(FOLDER, name), text);
    }
  }
  const present = globSync('**/*.*', { cwd: FOLDER }).sort();
  assert.deepEqual(present, [...wanted.keys()].sort(), 'write them with UPDATE_MONITORING=1');
  for (const [name, text] of wanted)
    assert.equal(readFileSync(join(FOLDER, name), 'utf8'), text, `${name} is old: write it with UPDATE_MONITORING=1`);
});

test('boards and alerts name metrics that exist', () => {
  const queries = Object.values(BOARDS).flatMap(({ rows }) =>
    rows.flatMap(({ panels }) => panels.flatMap((panel) => panel.queries.map(({ expr }) => expr))),
  );
  const known = new Set([...Object.keys(METRICS), ...Object.keys(AGENT_METRICS)]);
  const ofMesh = /\b(?:ctl|ca_server|cfg|sidecar_injection|mesh|xds|cert|dns|total|num)_\w+/g;
  for (const expr of [...queries, ...ALERTS.map((alert) => alert.expr)])
    for (const [name] of expr.matchAll(ofMesh))
      assert.ok(known.has(name) || known.has(name.replace(/_(?:bucket|sum|count)$/, '')), `${name} in ${expr}`);
});

/** What promtool prints; the test fails with it when promtool does. */
function promtool(...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(PROMTOOL, args, { encoding: 'utf8' });
  assert.equal(status, 0, `${stdout}${stderr}`);
  return stdout;
}

test('promtool accepts the rules', { skip }, () => {
  const files = globSync('rules/*.yaml', { cwd: FOLDER }).map((name) => join(FOLDER, name));
  const printed = promtool('check', 'rules', '--lint=all', '--lint-fatal', ...files);
  assert.match(printed, new RegExp(`${ALERTS.length} rules found`));
  assert.match(printed, new RegExp(`${PEER_NAMES.length} rules found`));
});

test('each alert fires when it should, and only then', { skip }, (t) => {
  assert.deepEqual(Object.keys(ALERT_CASES).sort(), ALERTS.map(({ alert }) => alert).sort());
  const folder = mkdtempSync(join(tmpdir(), 'meshd-alerts-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const tests = Object.entries(ALERT_CASES).flatMap(([name, one]) => [
    promtoolTest(name, one.fires, one, true),
    promtoolTest(name, one.quiet, one, false),
  ]);
  const file = join(folder, 'tests.yaml');
  writeFileSync(file, stringify({ rule_files: [join(FOLDER, 'rules/alerts.yaml')], tests }));
  promtool('test', 'rules', file);
});

/** https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/ */
function promtoolTest(
  alertname: string,
  series: AlertCase['fires'],
  { labels, at = '60m' }: AlertCase,
  fires: boolean,
) {
  const { severity = '' } = ALERTS.find(({ alert }) => alert === alertname) ?? {};
  return {
    name: `${alertname} ${fires ? 'fires' : 'is quiet'}`,
    interval: '1m',
    input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
    // The expression of the alert that Prometheus records has no annotations.
    promql_expr_test: [
      {
        expr: `ALERTS{alertname="${alertname}",alertstate="firing"}`,
        eval_time: at,
        exp_samples: fires
          ? [{ labels: labelText({ alertname, alertstate: 'firing', severity, ...labels }), value: 1 }]
          : [],
      },
    ],
  };
}

function labelText(labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${value}"`);
  return `ALERTS{${pairs.join(', ')}}`;
}
