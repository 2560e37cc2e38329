/**
 * Programs of this repository as images of the simulated kubelet, as they run in a cluster: with the Pod's own service
 * account, by which they reach the API server.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { startRelay } from '../../../src/kubernetes/testing/relay.ts';
import { programFile } from '../built.ts';
import type { Owner } from '../owner.ts';
import { API_SERVICE_ADDRESS } from './control-plane.ts';
import type { Image } from './kubelet.ts';

/**
 * Makes the API server reachable for Pods at the same port of another address, as kube-proxy does. Needs a network
 * namespace of the tests' own, in which the stage `kubernetes` runs. Returns the port.
 */
export async function exposeApiServer(owner: Owner, url: string): Promise<number> {
  const address = `${API_SERVICE_ADDRESS}/32`;
  await promisify(execFile)('ip', ['addr', 'replace', address, 'dev', 'lo']);
  const port = Number(new URL(url).port);
  const relay = await startRelay(port, API_SERVICE_ADDRESS, port);
  owner.after(() => relay.close());
  return port;
}

/**
 * Runs its arguments where the kubelet put the files of volumes: `ip netns exec` has given the process mounts of its
 * own, so that the absolute path of the service account can be changed. Output goes to the first argument.
 */
const IN_POD = `
set -e
log=$1; hosts=$2; shift 2
if [ -n "$hosts" ]; then
  printf '127.0.0.1 localhost\n%s\n' "$hosts" > hosts
  mount --bind hosts /etc/hosts
fi
if [ -d var/run/secrets ]; then
  mount -t tmpfs none /run
  ln -s "$PWD/var/run/secrets" /run/secrets
fi
exec "$@" >> "$log" 2>&1`;

export interface ProgramImage {
  /** A file to which the output of all Pods is appended. */
  readonly log: string;
  /** The port of `exposeApiServer`, for programs that call the API server. */
  readonly apiPort?: number;
  /** Lines of hosts(5), read when a Pod starts: there is no DNS server. */
  readonly hosts?: () => string;
}

/** The image of a program. */
export function programImage(
  program: 'ctl-discovery' | 'ctl-agent',
  { log, apiPort, hosts = () => '' }: ProgramImage,
): Image {
  return ({ args }) => [
    ...(apiPort === undefined
      ? []
      : [`KUBERNETES_SERVICE_HOST=${API_SERVICE_ADDRESS}`, `KUBERNETES_SERVICE_PORT=${apiPort}`]),
    ...['sh', '-c', IN_POD, 'sh', log, hosts(), process.execPath, programFile(program), ...args],
  ];
}
