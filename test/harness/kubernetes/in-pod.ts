/**
 * Programs of this repository as images of the simulated kubelet, as they run in a cluster: with the Pod's own service
 * account, by which they reach the API server.
 */
import { execFile } from 'node:child_process';
import { appendFileSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startRelay } from '../../../src/kubernetes/testing/relay.ts';
import { programFile } from '../built.ts';
import { envoyPath } from '../envoy.ts';
import type { Owner } from '../owner.ts';
import { API_SERVICE_ADDRESS } from './control-plane.ts';
import type { Image } from './kubelet.ts';

const PACKAGES = join(import.meta.dirname, '../../../node_modules');

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

export interface ProgramImage {
  /** A file to which the output of all Pods is appended. */
  readonly log: string;
  /** The port of `exposeApiServer`, for programs that call the API server. */
  readonly apiPort?: number;
  readonly env?: Readonly<Record<string, string>>;
  /** Folder of the built programs. Default: the one that `npm test` builds, else the sources. */
  readonly programs?: string;
}

/** Where the images of the Dockerfile have Node.js and the programs. */
const [NODE, DIST] = ['/usr/local/bin/node', '/opt/meshd/dist'];

/** The image of a program, with its files where those of the Dockerfile have them. */
export function programImage(program: 'ctl-discovery' | 'ctl-agent', options: ProgramImage): Image {
  const { log, apiPort, env, programs = process.env.TEST_PROGRAMS } = options;
  const server = apiPort && { KUBERNETES_SERVICE_HOST: API_SERVICE_ADDRESS, KUBERNETES_SERVICE_PORT: String(apiPort) };
  const command = programs === undefined ? [process.execPath, programFile(program)] : [NODE, `${DIST}/${program}.js`];
  const built = { [NODE]: process.execPath, [DIST]: programs ?? '', '/opt/meshd/node_modules': PACKAGES };
  const files = {
    ...(programs === undefined ? {} : built),
    ...(program === 'ctl-agent' ? { '/usr/local/bin/envoy': envoyPath() } : {}),
  };
  // Stays open: the folder may be removed before the last Pod has ended.
  const output = openSync(log, 'a');
  return ({ args }) => ({
    argv: [...command, ...args],
    env: { ...(server || {}), ...env },
    files,
    onOutput: (text) => appendFileSync(output, text),
  });
}
