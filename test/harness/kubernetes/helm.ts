/**
 * Helm, which renders the charts of `deploy/charts`. Its version is that of `helm/go.mod`. A first build takes 1 to 3
 * minutes on two cores.
 */
import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { tempDir } from '../files.ts';
import type { Owner } from '../owner.ts';
import { type BuildOptions, buildPrograms, builtPath, type GoPrograms, programsUnavailable } from './go-programs.ts';
import { KUBERNETES_MINOR } from './programs.ts';

const CHARTS = join(import.meta.dirname, '../../../deploy/charts');
const PACKAGE = 'helm.sh/helm/v3/cmd/helm';
const BUILD_FLAGS = ['-p', '2', '-trimpath', '-ldflags', '-s -w'] as const;

const PROGRAMS: GoPrograms<'helm'> = {
  name: 'helm',
  module: join(import.meta.dirname, 'helm'),
  inputs: [BUILD_FLAGS, PACKAGE],
  sources: [],
  artifacts: { helm: { command: ['build', ...BUILD_FLAGS], package: PACKAGE } },
  duration: '1 to 3 minutes on two cores',
};

/** Why charts cannot be rendered, or undefined when they can: for the `skip` of a test. */
export function helmUnavailable(): string | undefined {
  return programsUnavailable(PROGRAMS);
}

/** The path of the program, also before it is built. */
export function helmPath(): string {
  return builtPath(PROGRAMS, 'helm');
}

/** Builds Helm where it is missing. Returns why it cannot be done here; rejects when the build fails. */
export function buildHelm(options: BuildOptions): Promise<string | undefined> {
  return buildPrograms(PROGRAMS, options);
}

export type ChartName = 'ctl-discovery' | 'gateway';

export interface Release {
  readonly chart: ChartName;
  /** Default: the name of the chart. */
  readonly release?: string;
  readonly namespace: string;
  readonly values?: object;
  /** Also the definitions of the chart. Default false. */
  readonly definitions?: boolean;
}

/** Runs Helm with a home of its own. Rejects with what it printed when it fails. */
async function helm(
  owner: Owner,
  args: readonly string[],
  values: object = {},
  { kubeconfig = '' }: { readonly kubeconfig?: string } = {},
): Promise<string> {
  const folder = await tempDir(owner);
  const home = { HELM_CACHE_HOME: join(folder, 'c'), HELM_CONFIG_HOME: join(folder, 'c'), HELM_DATA_HOME: folder };
  await mkdir(join(folder, 'c'));
  const file = join(folder, 'values.yaml');
  await writeFile(file, JSON.stringify(values));
  // A build without version information believes in Kubernetes 1.20.
  const version = kubeconfig === '' ? ['--kube-version', `1.${KUBERNETES_MINOR}.0`] : [];
  const env = { PATH: process.env.PATH, HOME: folder, KUBECONFIG: kubeconfig, ...home };
  return (await promisify(execFile)(helmPath(), [...args, '--values', file, ...version], { env })).stdout;
}

/** `helm template`: the objects of a release as YAML. */
export function renderChart(
  owner: Owner,
  { chart, release, namespace, values, definitions = false }: Release,
): Promise<string> {
  const args = ['template', release ?? chart, join(CHARTS, chart), '--namespace', namespace];
  return helm(owner, definitions ? [...args, '--include-crds'] : args, values);
}

/**
 * `helm upgrade --install`: installs a release in a cluster, or upgrades it. Its Pods are not waited for.
 * @param kubeconfig the path of a file
 */
export function installChart(
  owner: Owner,
  kubeconfig: string,
  { chart, release, namespace, values, definitions = false }: Release,
): Promise<string> {
  const args = ['upgrade', '--install', release ?? chart, join(CHARTS, chart), '--namespace', namespace];
  return helm(owner, definitions ? args : [...args, '--skip-crds'], values, { kubeconfig });
}

/** `helm uninstall`. */
export async function uninstallChart(
  owner: Owner,
  kubeconfig: string,
  { chart, release, namespace }: Release,
): Promise<void> {
  const folder = await tempDir(owner);
  const env = { PATH: process.env.PATH, HOME: folder, KUBECONFIG: kubeconfig };
  await promisify(execFile)(helmPath(), ['uninstall', release ?? chart, '--namespace', namespace], { env });
}

/** `helm lint --strict`; rejects with its findings. */
export function lintChart(owner: Owner, chart: ChartName, values?: object): Promise<string> {
  return helm(owner, ['lint', '--strict', join(CHARTS, chart)], values);
}
