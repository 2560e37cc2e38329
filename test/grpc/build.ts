/**
 * Builds the gRPC application of this folder. Its modules come from the Go module proxy as go.sum has them. The program
 * is kept in .cache, by what it is made of.
 */
import { join } from 'node:path';
import { buildGoProgram, goUnavailable } from '../harness/index.ts';

const HERE = import.meta.dirname;

/** The version in go.mod. */
const GO_NEEDED = [1, 26] as const;

/** A first build fetches 30 MB and compiles for less than a minute on an idle machine. */
const BUILD_TIMEOUT_MS = 400_000;

/** Why the program cannot be built, or undefined when it can: for the `skip` of a test. */
export function buildUnavailable(): Promise<string | undefined> {
  return goUnavailable(GO_NEEDED);
}

let built: Promise<string> | undefined;

/** Builds the program, unless it was built before. Returns its path; rejects with the output of the go command. */
export function buildGrpcApplication(): Promise<string> {
  built ??= buildGoProgram({
    folder: HERE,
    sources: ['go.mod', 'go.sum', 'main.go'],
    cache: join(HERE, '../../.cache'),
    name: 'grpc-application',
    timeoutMs: BUILD_TIMEOUT_MS,
  });
  return built;
}
