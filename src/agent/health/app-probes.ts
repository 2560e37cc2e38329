/**
 * Probes the application for the kubelet: a proxy that requires mutual TLS would refuse its plain-text requests.
 * MESH_ORCH_APP_PROBERS has the probes of the pod by path, as injection writes them:
 *
 *   {"/app-health/web/readyz": {"httpGet": {"path": "/ready", "port": 8080}, "timeoutSeconds": 2},
 *    "/app-health/db/livez": {"tcpSocket": {"port": 5432}},
 *    "/app-health/api/startupz": {"grpc": {"port": 9000, "service": "shop"}}}
 */
import { CtlError, messageOf } from '../../core/errors.ts';
import { isObject } from '../../core/objects.ts';
import { type AppProbe, parseProbe } from './probes.ts';

/** Probes by path. */
export type AppProbes = ReadonlyMap<string, AppProbe>;

const VARIABLE = 'MESH_ORCH_APP_PROBERS';

/**
 * Reads the variable; empty for no probes. Throws a CtlError.
 *
 * @param host the application's address, unless a probe names another one
 */
export function parseAppProbes(text: string, host: string): AppProbes {
  if (text === '') return new Map();
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch {
    throw refused('not JSON');
  }
  if (!isObject(data)) throw refused('expected an object that maps paths to probes');
  return new Map(
    Object.entries(data).map(([path, spec]) => {
      if (!/^\/app-health\/[^/]+\/(livez|readyz|startupz)$/.test(path))
        throw refused(`${JSON.stringify(path)} is not /app-health/<container>/{livez,readyz,startupz}`);
      try {
        return [path, parseProbe(spec ?? null, host)];
      } catch (error) {
        throw refused(`${path}: ${messageOf(error)}`);
      }
    }),
  );
}

function refused(why: string): CtlError {
  return new CtlError('invalid_argument', `invalid value of variable ${VARIABLE}: ${why}`);
}
