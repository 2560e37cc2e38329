/**
 * Programs of this repository as images of the simulated kubelet, as they run in a cluster: with the Pod's own service
 * account, by which they reach the API server.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startRelay } from '../../../src/kubernetes/testing/relay.ts';
import type { Owner } from '../owner.ts';
import { API_SERVICE_ADDRESS } from './control-plane.ts';
import type { Image } from './kubelet.ts';

const REPOSITORY = join(import.meta.dirname, '../../..');
const API_PORT = 443;

/**
 * Makes the API server reachable for Pods, as kube-proxy does. Needs a network namespace of the test's own, in which
 * the stage `kubernetes` runs.
 */
export async function exposeApiServer(owner: Owner, url: string): Promise<void> {
  const address = `${API_SERVICE_ADDRESS}/32`;
  await promisify(execFile)('ip', ['addr', 'replace', address, 'dev', 'lo']);
  const relay = await startRelay(Number(new URL(url).port), API_SERVICE_ADDRESS, API_PORT);
  owner.after(() => relay.close());
}

/**
 * Runs its arguments where the kubelet put the files of volumes: `ip netns exec` has given the process mounts of its
 * own, so that the absolute path of the service account can be changed. Output goes to the first argument.
 */
const IN_POD = `
set -e
log=$1; shift
if [ -d var/run/secrets ]; then
  mount -t tmpfs none /run
  ln -s "$PWD/var/run/secrets" /run/secrets
fi
exec "$@" >> "$log" 2>&1`;

/** The image of a program; the output of all of its Pods is appended to a file. */
export function programImage(program: 'ctl-discovery' | 'ctl-agent', logFile: string): Image {
  return ({ args }) => [
    `KUBERNETES_SERVICE_HOST=${API_SERVICE_ADDRESS}`,
    `KUBERNETES_SERVICE_PORT=${API_PORT}`,
    ...['sh', '-c', IN_POD, 'sh', logFile, process.execPath, join(REPOSITORY, 'src', `${program}.ts`), ...args],
  ];
}
