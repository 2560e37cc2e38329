/**
 * Builds the OTLP receiver of the OpenTelemetry Collector, with a program around it that prints what arrives. Its
 * modules come from the Go module proxy as go.sum has them. The program is kept in .cache, by what it is made of.
 */
import { join } from 'node:path';
import { buildGoProgram, goUnavailable } from '../harness/index.ts';

/** The version in go.mod. */
const GO_NEEDED = [1, 26] as const;
const SOURCES = ['go.mod', 'go.sum', 'main.go'];
/** A first build fetches 40 MB and compiles for about a minute and a half on an idle machine. */
const BUILD_TIMEOUT_MS = 500_000;

/** Why the program cannot be built, or undefined when it can: for the `skip` of a test. */
export function receiverUnavailable(): Promise<string | undefined> {
  return goUnavailable(GO_NEEDED);
}

/** Returns the path of the program; rejects with the output of the go command. */
export function buildReceiver(): Promise<string> {
  return buildGoProgram({
    folder: import.meta.dirname,
    sources: SOURCES,
    cache: join(import.meta.dirname, '../../.cache'),
    name: 'otlp-receiver',
    timeoutMs: BUILD_TIMEOUT_MS,
  });
}
