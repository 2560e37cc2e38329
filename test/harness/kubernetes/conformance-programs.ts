/**
 * The official conformance suite of the Gateway API as a program, the program of its backends, and the API's
 * definitions. Their version is that of `conformance/go.mod`. A first build takes 1 to 4 minutes on two cores.
 */
import { join } from 'node:path';
import { type BuildOptions, buildPrograms, builtPath, type GoPrograms, programsUnavailable } from './go-programs.ts';

const BUILD_FLAGS = ['-p', '2', '-trimpath', '-ldflags', '-s -w'] as const;

/** The channel with every field of the API; the standard one lacks retries. */
const DEFINITIONS = 'config/crd/experimental';

export type ConformanceArtifact = 'definitions' | 'echo-basic' | 'conformance.test';

const PROGRAMS: GoPrograms<ConformanceArtifact> = {
  name: 'gateway-api-conformance',
  module: join(import.meta.dirname, 'conformance'),
  inputs: [BUILD_FLAGS, DEFINITIONS],
  sources: ['conformance_test.go'],
  artifacts: {
    definitions: { module: 'sigs.k8s.io/gateway-api', folder: DEFINITIONS },
    'echo-basic': { command: ['build', ...BUILD_FLAGS], package: 'sigs.k8s.io/gateway-api/conformance/echo-basic' },
    'conformance.test': { command: ['test', '-c', ...BUILD_FLAGS], package: '.' },
  },
  duration: '1 to 4 minutes on two cores',
};

export function conformancePath(name: ConformanceArtifact): string {
  return builtPath(PROGRAMS, name);
}

/** Why the suite cannot run, or undefined when it can: for the `skip` of a test. */
export function conformanceUnavailable(): string | undefined {
  return programsUnavailable(PROGRAMS);
}

/** Builds what is missing. Returns why it cannot be done here; rejects when a build fails. */
export function buildConformance(options: BuildOptions): Promise<string | undefined> {
  return buildPrograms(PROGRAMS, options);
}
