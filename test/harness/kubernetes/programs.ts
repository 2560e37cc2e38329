/**
 * The programs of a Kubernetes control plane: etcd, kube-apiserver and kube-controller-manager. Their versions are
 * those of `programs/go.mod`. A first build takes 3 to 12 minutes on two cores and 2.6 GiB.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type BuildOptions, buildPrograms, builtPath, type GoPrograms, programsUnavailable } from './go-programs.ts';

const MODULE = join(import.meta.dirname, 'programs');

const KUBERNETES_VERSION = /^\tk8s\.io\/kubernetes v(\d+)\.(\d+)\.(\d+)$/m.exec(
  readFileSync(join(MODULE, 'go.mod'), 'utf8'),
);
const [, MAJOR = '', MINOR = '', PATCH = ''] = KUBERNETES_VERSION ?? [];

/** 37 of Kubernetes 1.37. */
export const KUBERNETES_MINOR = MINOR;

/** The packages of the programs, by name. */
const PACKAGES = {
  etcd: 'go.etcd.io/etcd/server/v3',
  'kube-apiserver': 'k8s.io/kubernetes/cmd/kube-apiserver',
  'kube-controller-manager': 'k8s.io/kubernetes/cmd/kube-controller-manager',
} as const;

export type ProgramName = keyof typeof PACKAGES;

const VERSION_PACKAGE = 'k8s.io/component-base/version';

/** Without major and minor, clients that parse the server's version fail. */
const LINKER_FLAGS = [
  '-s -w',
  `-X ${VERSION_PACKAGE}.gitVersion=v${MAJOR}.${MINOR}.${PATCH}`,
  `-X ${VERSION_PACKAGE}.gitMajor=${MAJOR} -X ${VERSION_PACKAGE}.gitMinor=${MINOR}`,
].join(' ');

const BUILD_FLAGS = ['-p', '2', '-trimpath', '-ldflags', LINKER_FLAGS] as const;

const command = ['build', ...BUILD_FLAGS] as const;

const PROGRAMS: GoPrograms<ProgramName> = {
  name: 'kubernetes',
  module: MODULE,
  inputs: [BUILD_FLAGS, PACKAGES],
  sources: [],
  artifacts: {
    etcd: { command, package: PACKAGES.etcd },
    'kube-apiserver': { command, package: PACKAGES['kube-apiserver'] },
    'kube-controller-manager': { command, package: PACKAGES['kube-controller-manager'] },
  },
  duration: 'about 10 minutes on two cores',
};

/** The path of a program, also before it is built. */
export function programPath(name: ProgramName): string {
  return builtPath(PROGRAMS, name);
}

/** Why the control plane cannot be started, or undefined when it can: for the `skip` of a test. */
export function kubernetesUnavailable(): string | undefined {
  return programsUnavailable(PROGRAMS);
}

/**
 * Builds the programs that are missing, one at a time. Returns why it cannot be done here; rejects when a build fails.
 */
export function buildKubernetes(options: BuildOptions): Promise<string | undefined> {
  return buildPrograms(PROGRAMS, options);
}
