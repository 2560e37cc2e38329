/**
 * Requests at the inbound ports of a sidecar, whatever policies say: which versions of HTTP are accepted, and what is
 * tried again. Through agents, real Envoys and redirection.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { stringify } from 'yaml';
import { eventually, netnsUnavailable, tempDir } from '../harness/index.ts';
import { sharedService, startIdentityWorld, UNBOUND_PORT, type Workload } from './support/identity-world.ts';
import { httpOutcome } from './support/peer-calls.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const skip = (await netnsUnavailable()) ?? false;

/** Ports at which no application listens, with their names in the Service. */
const GONE = { 'http-gone': 8990, gone: 8991, 'grpc-gone': 8992 } as const;

interface Shared {
  readonly web: Workload;
  readonly plain: Workload;
}

const owner = suiteOwner();
const shared = lazy<Shared>();

before(async () => {
  if (skip !== false) return;
  const meshConfig = join(await tempDir(owner), 'mesh.yaml');
  const accessLogFormat = 'LOG %REQ(:PATH)% %RESPONSE_CODE% attempts %UPSTREAM_REQUEST_ATTEMPT_COUNT%\n';
  await writeFile(meshConfig, stringify({ accessLogFile: '/dev/stderr', accessLogFormat }));
  const world = await startIdentityWorld(owner, { flags: ['--meshConfig', meshConfig] });
  const [web, plain] = await Promise.all([
    world.addWorkload({ name: 'web', namespace: 'foo', proxied: true }),
    world.addWorkload({ name: 'plain', namespace: 'legacy', proxied: false }),
  ]);
  const gone = Object.entries(GONE).map(([name, port]) => ({ name, port, targetPort: port }));
  const detected = { name: 'detected', port: UNBOUND_PORT, targetPort: UNBOUND_PORT };
  await world.config.apply('more', ...sharedService('more', '10.96.2.1', [web], [...gone, detected]));
  await eventually(async () => assert.match((await web.agent?.admin('/config_dump')) ?? '', /"inbound\|8992\|\|"/));
  shared.set({ web, plain });
});

/** The outcome of a request by curl with these arguments, to a path that occurs once. */
function call(port: number, path: string, ...args: readonly string[]): Promise<string> {
  const { plain, web } = shared.get();
  return httpOutcome(plain, web, ['-m', '10', ...args, `http://${web.netns.address}:${port}${path}`]);
}

/** What the access log of the proxy says about a path. */
function logged(path: string): Promise<string> {
  return eventually(() => {
    const line = shared
      .get()
      .web.agent?.output()
      .match(new RegExp(`LOG ${path} (.*)`));
    return line?.[1] ?? assert.fail(`nothing about ${path}`);
  });
}

describe('inbound requests', { skip }, () => {
  test('HTTP/1.0 is accepted where the protocol is detected', async () => {
    assert.equal(await call(UNBOUND_PORT, '/', '--http1.0'), '200 plain', 'a port without protocol');
    // Declared as HTTP: without CTL_HTTP10 clients are told to use a newer version.
    assert.equal(await call(8080, '/', '--http1.0'), '426');
  });

  test('requests that could not be sent to the application are tried twice more, except gRPC', async () => {
    const calls = [
      ['http-gone', GONE['http-gone'], 3],
      ['gone', GONE.gone, 3],
      ['grpc-gone', GONE['grpc-gone'], 1],
      ['of-no-service', 8999, 3],
    ] as const;
    for (const [name, port] of calls) assert.equal(await call(port, `/${name}`), '503', name);
    // Envoy writes its access log every ten seconds (--file-flush-interval-msec).
    for (const [name, , attempts] of calls) assert.equal(await logged(`/${name}`), `503 attempts ${attempts}`, name);
  });
});
