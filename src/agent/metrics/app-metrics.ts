/** MESH_METRICS_ANNOTATIONS: the address of the application's own metrics, from its pod's annotations. */
import { CtlError } from '../../core/errors.ts';
import { isObject } from '../../core/objects.ts';

/** Port and path of an application's metrics. */
export interface AppMetrics {
  readonly port: number;
  readonly path: string;
}

const VARIABLE = 'MESH_METRICS_ANNOTATIONS';

/**
 * Reads the annotations as injection passes them: `{"scrape": "true", "port": "8080", "path": "/metrics"}`. Undefined
 * when nothing is to be scraped. Throws a CtlError.
 */
export function parseAppMetrics(text: string, ownPort: number): AppMetrics | undefined {
  if (text === '') return undefined;
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch {
    throw refused('not JSON');
  }
  if (!isObject(data)) throw refused('expected scrape, port and path');
  if (!['true', true].includes(data.scrape as string | boolean)) return undefined;
  const port = data.port === undefined || data.port === '' ? 80 : Number(data.port);
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw refused('port must be a number from 1 to 65535');
  if (port === ownPort) throw refused(`port ${port} is the agent's own, which would scrape itself`);
  const path = data.path === undefined || data.path === '' ? '/metrics' : data.path;
  if (typeof path !== 'string' || !/^\/[!-~]*$/.test(path)) throw refused('path must begin with /');
  return { port, path };
}

function refused(why: string): CtlError {
  return new CtlError('invalid_argument', `invalid value of variable ${VARIABLE}: ${why}`);
}
