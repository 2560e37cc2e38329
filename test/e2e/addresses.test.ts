/**
 * A control plane with default settings gives other machines no configuration without a credential. Two network
 * namespaces represent the machines.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { createNetwork, eventually, type Namespace, netnsUnavailable, programFile, tempDir } from '../harness/index.ts';
import { suiteOwner } from './support/suite.ts';

const skip = (await netnsUnavailable()) ?? false;
const PROGRAM = programFile('ctl-discovery');
const owner = suiteOwner();

/** The outcome of a TCP connection to an address from inside a namespace, in one word. */
const CONNECT = `
const [host, port] = process.argv.slice(1);
const socket = require('node:net').connect(Number(port), host, () => { console.log('connected'); socket.destroy(); });
socket.on('error', ({ code }) => console.log(code));
`;

async function curl(from: Namespace, ...args: readonly string[]): Promise<{ status: number; body: string }> {
  const out = await from.run('curl', '-sS', '--max-time', '20', '-w', '\n%{http_code}', ...args);
  const at = out.lastIndexOf('\n');
  return { status: Number(out.slice(at + 1)), body: out.slice(0, at) };
}

describe('a control plane with default addresses', { skip }, () => {
  let [control, outside]: Namespace[] = [];
  let [folder, issuer] = ['', ''];

  const connect = async (from: Namespace, host: string, port: number) =>
    (await from.run(process.execPath, '-e', CONNECT, host, String(port))).trim();

  async function start(...flags: readonly string[]) {
    assert.ok(control);
    const env = [`LOCAL_TOKEN_ISSUER_DIR=${issuer}`, `SELF_SIGNED_CA_DIR=${join(folder, 'ca')}`];
    const args = ['discovery', '--configDir', join(folder, 'config'), ...flags];
    const child = await control.start('ctl-discovery', ['env', ...env, process.execPath, PROGRAM, ...args]);
    await eventually(() => {
      child.assertRunning();
      assert.match(child.output(), /listening: /);
    });
    return child;
  }

  const token = async (namespace: string): Promise<string> => {
    const args = ['issue-token', '--issuer-dir', issuer, '-n', namespace, '--service-account', 'any'];
    return (await promisify(execFile)(process.execPath, [PROGRAM, ...args])).stdout.trim();
  };

  before(async () => {
    const network = await createNetwork(owner);
    control = await network.addNamespace('control');
    outside = await network.addNamespace('outside');
    folder = await tempDir(owner);
    issuer = join(folder, 'issuer');
    await mkdir(join(folder, 'config'));
  });

  test('debug pages need a token or this machine; xDS without credentials is for this machine only', async () => {
    assert.ok(control && outside);
    const [root, shop] = [await token('mesh-system'), await token('shop')];
    const child = await start('--profile');
    const { address } = control;
    for (const port of [8080, 15014]) {
      const base = `http://${address}:${port}`;
      assert.equal((await curl(outside, `${base}/ready`)).status, 200);
      for (const path of ['syncz', 'configz', 'pprof/heap']) {
        const { status, body } = await curl(outside, '-H', 'Host: localhost', `${base}/debug/${path}`);
        assert.equal(status, 401, path);
        assert.match(body, /^debug pages need a bearer token [^\n]*\n$/);
      }
      const shown = async (bearer: string, path: string) =>
        (await curl(outside as Namespace, '-H', `Authorization: Bearer ${bearer}`, '-o', '/dev/null', `${base}${path}`))
          .status;
      assert.deepEqual([await shown(root, '/debug/configz'), await shown(shop, '/debug/configz')], [200, 200]);
      assert.deepEqual([await shown(root, '/debug/pprof'), await shown(shop, '/debug/pprof')], [200, 403]);
      assert.equal((await curl(control, `http://localhost:${port}/debug/configz`)).status, 200);
      assert.equal(
        (await curl(control, '-H', 'Host: evil.example', `http://localhost:${port}/debug/syncz`)).status,
        403,
      );
    }
    assert.equal((await curl(outside, `http://${address}:15014/metrics`)).status, 200);
    for (const host of ['127.0.0.1', '::1']) assert.equal(await connect(control, host, 15010), 'connected', host);
    for (const host of [control.address, control.address6]) {
      assert.equal(await connect(outside, host, 15010), 'ECONNREFUSED', host);
      assert.equal(await connect(outside, host, 15012), 'connected', host);
    }
    const [line] = /listening: .*/.exec(child.output()) ?? [];
    const tls = 'xDS over TLS on *:15012; webhooks over TLS on *:15017';
    const plain = 'HTTP on *:8080; monitoring on *:15014; introspection on localhost:9876';
    assert.equal(line, `listening: xDS in plain text on 127.0.0.1:15010, [::1]:15010; ${tls}; ${plain}`);
    assert.doesNotMatch(child.output(), /warn.*grpcAddr/);
    await child.stop();
  });

  test('--grpcAddr opens xDS without credentials to everyone, with one warning', async () => {
    assert.ok(control && outside);
    const child = await start('--grpcAddr', ':15010');
    for (const host of [control.address, control.address6]) {
      assert.equal(await connect(outside, host, 15010), 'connected', host);
    }
    assert.equal(child.output().match(/--grpcAddr :15010 serves the configuration of any namespace/g)?.length, 1);
    await child.stop();
  });
});
