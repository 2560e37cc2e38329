/** Access to the API server from inside a Pod (Kubernetes documentation, "Accessing the Kubernetes API from a Pod"). */
import { join } from 'node:path';
import { CtlError } from '../core/errors.ts';
import type { ClusterAccess } from './access.ts';
import { readPem, readText, readToken } from './credential-files.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Where the kubelet mounts the service account: `token`, `ca.crt` and `namespace`. */
const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';

/**
 * The access of this Pod's service account; undefined if the environment variables show that this is not a Pod. @throws
 * CtlError if the variables are set and the service account cannot be read
 */
export async function inClusterAccess(env: Environment, folder = SERVICE_ACCOUNT): Promise<ClusterAccess | undefined> {
  const host = env.ORCH_SERVICE_HOST || env.KUBERNETES_SERVICE_HOST;
  if (host === undefined || host === '') return undefined;
  const port = env.KUBERNETES_SERVICE_PORT || '443';
  const server = URL.parse(`https://${host.includes(':') ? `[${host}]` : host}:${port}`);
  if (server === null) {
    const message = `expected the address and port of the API server, got ${JSON.stringify(`${host}:${port}`)}`;
    throw new CtlError('failed_precondition', message, { field: 'KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT' });
  }
  const [tokenFile, caFile] = [join(folder, 'token'), join(folder, 'ca.crt')];
  await readToken(tokenFile);
  const namespace = (await readText(join(folder, 'namespace'), folder)).trim();
  return {
    server,
    ...(namespace === '' ? {} : { namespace }),
    tls: async () => ({ ca: await readPem(caFile, caFile) }),
    token: () => readToken(tokenFile),
  };
}
