/** The files for Grafana and Prometheus, which the chart has: their names and contents, from the sources here. */
import { ALERTS } from './alerts.ts';
import { AGENT } from './boards/agent.ts';
import { boardJson } from './boards/board.ts';
import { CONTROL_PLANE } from './boards/control-plane.ts';
import { PERFORMANCE } from './boards/performance.ts';
import { PEER_NAMES } from './peer-names.ts';
import { rulesYaml } from './rules.ts';

export const MONITORING_FOLDER = new URL('../../deploy/charts/ctl-discovery/monitoring/', import.meta.url);

export const BOARDS = { 'control-plane': CONTROL_PLANE, performance: PERFORMANCE, agent: AGENT } as const;

const GENERATED = '# Written by UPDATE_MONITORING=1 npm test -- unit monitoring, from tools/monitoring.';

export function monitoringFiles(): ReadonlyMap<string, string> {
  return new Map([
    ...Object.entries(BOARDS).map(([name, board]) => [`boards/${name}.json`, boardJson(board)] as const),
    ['rules/alerts.yaml', rulesYaml(GENERATED, 'mesh', ALERTS)],
    ['rules/istio-names.yaml', rulesYaml(GENERATED, 'mesh-istio-names', PEER_NAMES)],
  ]);
}
