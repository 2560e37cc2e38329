/**
 * The gRPC server passes h2spec, which tests the MUST and SHOULD of RFC 7540 and RFC 7541 section by section. The
 * server follows RFC 9113, which replaced RFC 7540. Where they differ, an expected failure is listed below with its
 * reason.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { createGrpcServer, type StreamCall } from '../../src/grpc/index.ts';
import { buildH2spec } from '../h2spec/build.ts';
import { goCommand } from '../harness/index.ts';

/** Cases of the version that test/h2spec/go.mod names, all sections. */
const CASES = 146;

/** Cases that are expected to fail, with the reason. */
const EXPECTED_FAILURES: Readonly<Record<string, string>> = {
  'http2/5.3.1/2':
    'a PRIORITY frame that depends on its own stream: RFC 9113 section 5.3.2 has removed priorities, ' +
    'and requires only a check of the length (6.3)',
};

/** The limit for one answer, also on a busy machine. Each expected failure takes that long. */
const ANSWER_TIMEOUT = '5s';

interface Outcome {
  readonly id: string;
  readonly what: string;
  readonly result: 'passed' | 'failed' | 'skipped';
  readonly expected?: readonly string[];
  readonly actual?: string;
}

const PATH = '/h2spec.Test/Answer';

/** Answers with a few bytes when the request is complete, so that windows have something to hold back. */
function answer(call: StreamCall): void {
  call.read({
    data: () => {},
    ended: () => {
      call.write([Buffer.alloc(100, 'a')], () => {});
      call.end();
    },
  });
}

const go = goCommand();
const skip = go === undefined ? 'h2spec needs the go command (on PATH or in /usr/local/go/bin)' : false;

test('the gRPC server passes h2spec except for the expected failures', { skip }, async (t) => {
  const program = await buildH2spec(go ?? '');
  const faults: unknown[] = [];
  const server = createGrpcServer({
    listeners: [{ host: '127.0.0.1', port: 0 }],
    services: [{ streams: { [PATH]: answer } }],
    observer: {
      refused: () => {},
      endedEarly: () => {},
      requestTooLarge: () => {},
      internalError: (error) => void faults.push(error),
    },
    maxStreams: 100,
    maxConnections: 1000,
    keepaliveIntervalMs: 60_000,
    keepaliveTimeoutMs: 60_000,
    idleMs: 60_000,
    sendTimeoutMs: 60_000,
    requestTimeoutMs: 60_000,
    maxIncomplete: 100,
  });
  await server.start();
  t.after(() => server.destroy());
  const args = ['-port', String(server.ports()[0]), '-path', PATH, '-timeout', ANSWER_TIMEOUT];
  const { stdout } = await promisify(execFile)(program, args);
  const outcomes = stdout
    .trim()
    .split('\n')
    .map((line): Outcome => JSON.parse(line));
  assert.deepEqual(faults, []);
  assert.equal(outcomes.length, CASES);
  const passed = ({ id, result }: Outcome): boolean => result === (id in EXPECTED_FAILURES ? 'failed' : 'passed');
  assert.deepEqual(
    outcomes.filter((outcome) => !passed(outcome)),
    [],
  );
});
