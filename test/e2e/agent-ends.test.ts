/** How `ctl-agent proxy` ends by signals, and by the end of its connections, with a real Envoy. */
import assert from 'node:assert/strict';
import { createServer, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { before, test } from 'node:test';
import { type Agent, type AgentOptions, eventually, freePort, type Owner, startAgent } from '../harness/index.ts';
import { endpoints, pod, service } from './support/config.ts';
import { planMesh, sidecar, startMesh, type TestMesh } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const PORT = 7482;
const owner = suiteOwner();
const address = planMesh();
const own = address(20);

interface Shared {
  readonly mesh: TestMesh;
  /** Responses of the application that have begun, and continue until they are ended. */
  readonly begun: ServerResponse[];
}
const shared = lazy<Shared>();

before(async () => {
  const begun: ServerResponse[] = [];
  const server = createServer((_, response) => {
    response.write('begun');
    begun.push(response);
  });
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  owner.after(() => void server.close().closeAllConnections());
  const ingress = [{ number: PORT, protocol: 'HTTP', to: `127.0.0.1:${port}` }];
  const mesh = await startMesh(owner, address, {
    files: {
      server: [
        sidecar('server', { address: own, ingress }),
        service('server', { clusterIP: '10.96.0.1', ports: [{ name: 'http', port: PORT }] }),
        pod('server', { ip: own, labels: { app: 'server' } }),
        endpoints('server', { server: own }, [{ name: 'http', port: PORT }]),
      ],
    },
  });
  shared.set({ mesh, begun });
});

function agent(from: Owner, options: Partial<AgentOptions> = {}): Promise<Agent> {
  const { ports } = shared.get().mesh.discovery();
  return startAgent(from, {
    name: 'server',
    address: own,
    discoveryAddress: `127.0.0.1:${ports.grpc}`,
    proxyConfig: { controlPlaneAuthPolicy: 'NONE' },
    ...options,
  });
}

/** A request whose response has begun. */
async function request(): Promise<{ readonly socket: Socket; readonly response: ServerResponse; text(): string }> {
  const { begun } = shared.get();
  const count = begun.length;
  const socket = connect(PORT, own);
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk) => {
    text += chunk;
  });
  socket.on('error', () => undefined);
  socket.write('GET / HTTP/1.1\r\nhost: server\r\n\r\n');
  await eventually(() => assert.match(text, /begun/));
  return { socket, response: begun[count] ?? assert.fail('no request'), text: () => text };
}

/** Connecting is refused when the listeners are closed. */
const listens = (): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(PORT, own, () => resolve(true));
    socket.once('connect', () => socket.destroy()).once('error', () => resolve(false));
  });

for (const signal of ['SIGHUP', 'SIGQUIT', 'SIGALRM', 'SIGPWR'] as const) {
  test(`${signal} begins the drain of the agent, and a second one ends it with its Envoy`, async (t) => {
    // Longer than anything here takes.
    const started = await agent(t, { env: { TERMINATION_DRAIN_DURATION_SECONDS: '600' } });
    const { response, text } = await request();
    started.signal(signal);
    await eventually(async () => assert.equal(await started.readiness(), 503));
    response.end(' and ended');
    await eventually(() => assert.match(text(), /and ended/));
    started.signal(signal);
    assert.deepEqual(await started.exited, { code: 0, signal: null });
    assert.equal(await started.envoyPid(), undefined);
  });
}

test('SIGUSR2 does not end the agent', async (t) => {
  const started = await agent(t);
  started.signal('SIGUSR2');
  await eventually(() => assert.match(started.output(), /SIGUSR2 is ignored/));
  assert.equal(await started.readiness(), 200);
});

test('with EXIT_ON_ZERO_ACTIVE_CONNECTIONS the agent ends with the last connection', async (t) => {
  const env = { EXIT_ON_ZERO_ACTIVE_CONNECTIONS: 'true', MINIMUM_DRAIN_DURATION: '1s' };
  const started = await agent(t, {
    env: { ...env, TERMINATION_DRAIN_DURATION_SECONDS: '1' },
    flags: ['--log_output_level=default:debug'],
  });
  const { socket, response, text } = await request();
  const beside = connect(PORT, own);
  t.after(() => beside.destroy());
  started.signal('SIGTERM');
  // New connections are refused after the minimum; those that are open continue, however long they take.
  await eventually(async () => assert.equal(await listens(), false));
  await eventually(() => assert.match(started.output(), /connections remain\tcount=2\b/));
  beside.destroy();
  await eventually(() => assert.match(started.output(), /connections remain\tcount=1\b/));
  response.write(' and continued');
  await eventually(() => assert.match(text(), /and continued/));
  response.end(' and ended');
  await eventually(() => assert.match(text(), /and ended/));
  socket.destroy();
  assert.deepEqual(await started.exited, { code: 0, signal: null });
  assert.equal(await started.envoyPid(), undefined);
});

test('with EXIT_ON_ZERO_ACTIVE_CONNECTIONS a second signal ends the agent at once', async (t) => {
  const env = { EXIT_ON_ZERO_ACTIVE_CONNECTIONS: 'true', MINIMUM_DRAIN_DURATION: '0s' };
  const started = await agent(t, { env });
  const { socket } = await request();
  started.signal('SIGTERM');
  await eventually(async () => assert.equal(await listens(), false));
  started.signal('SIGTERM');
  assert.deepEqual(await started.exited, { code: 0, signal: null });
  socket.destroy();
});
