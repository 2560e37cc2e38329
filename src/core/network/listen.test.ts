import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { CtlError } from '../errors.ts';
import { hostPort, isMissingAddress, listen } from './listen.ts';

const unexpected = (line: string): void => assert.fail(line);

test('an address in use is an error of one line, and the server has no listeners left of it', async (t) => {
  const first = createServer();
  t.after(() => first.close());
  const port = await listen(first, '--httpAddr', { host: '127.0.0.1', port: 0 }, unexpected);
  const second = createServer();
  const error = await listen(second, '--httpAddr', { host: '127.0.0.1', port }, unexpected).catch((thrown) => thrown);
  assert.ok(error instanceof CtlError);
  assert.equal(error.code, 'unavailable');
  assert.equal(error.oneLine(), `--httpAddr: cannot listen on 127.0.0.1:${port} (EADDRINUSE)`);
  assert.equal(isMissingAddress(error), false);
  assert.equal(second.listenerCount('error'), 0);
});

test('an address that the machine does not have is told apart', async () => {
  const address = { host: '192.0.2.1', port: 0 };
  const error = await listen(createServer(), 'DNS', address, unexpected).catch((thrown) => thrown);
  assert.equal(isMissingAddress(error), true);
});

test('an error of accept(2), simulated, is a warning', async (t) => {
  const server = createServer();
  t.after(() => server.close());
  const lines: string[] = [];
  await listen(server, '--httpAddr', { host: '127.0.0.1', port: 0 }, (line) => lines.push(line));
  server.emit('error', new Error('accept EMFILE'));
  server.emit('error', new Error('accept EMFILE'));
  assert.deepEqual(lines, ['--httpAddr: accept EMFILE', '--httpAddr: accept EMFILE']);
});

test('addresses are shown with their port', () => {
  assert.equal(hostPort({ port: 80 }), ':80');
  assert.equal(hostPort({ host: '::1', port: 80 }), '[::1]:80');
  assert.equal(hostPort({ host: '127.0.0.1', port: 80 }), '127.0.0.1:80');
});
