import assert from 'node:assert/strict';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { CtlError } from '../core/errors.ts';
import type { PreviewCaller } from '../preview/index.ts';
import { type DebugSource, handleDebug, PageMaker, type Viewer } from './index.ts';

let viewer: Viewer = 'all';
const asked: { readonly body: string; readonly caller: PreviewCaller }[] = [];
const source = {
  previews: {
    run(body: Buffer, caller: PreviewCaller) {
      asked.push({ body: body.toString(), caller });
      if (!caller.sees('bank')) throw new CtlError('permission_denied', 'not yours', { file: 'a.yaml', line: 3 });
      return Promise.resolve({ version: 7 });
    },
  },
  // The page reads nothing else.
} as unknown as DebugSource;
const maker = new PageMaker({ now: () => performance.now(), nextTurn: () => nextTurn() });
const server = createServer((request, response) => void handleDebug({ source, viewer, maker }, request, response));
before(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)));
after(() => {
  server.close();
  server.closeAllConnections();
});

async function post(body: string | Uint8Array<ArrayBuffer>, method = 'POST') {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/debug/diffz`;
  const response = await fetch(url, { method, ...(method === 'POST' && { body }) });
  return { status: response.status, text: await response.text() };
}

describe('POST /debug/diffz', () => {
  it('returns what the preview says, of a viewer who sees everything', async () => {
    viewer = 'all';
    assert.deepEqual(await post('{"files": []}'), { status: 200, text: '{\n  "version": 7\n}\n' });
    assert.equal(asked.at(-1)?.body, '{"files": []}');
    assert.ok(asked.at(-1)?.caller.sees(''));
  });

  it('shows a viewer of one namespace this namespace, and refusals in one line', async () => {
    viewer = { namespace: 'shop' };
    assert.deepEqual(await post('x'), { status: 403, text: 'a.yaml:3: not yours\n' });
    const caller = asked.at(-1)?.caller;
    assert.deepEqual([caller?.sees('shop'), caller?.sees('bank'), caller?.sees('')], [true, false, false]);
  });

  it('counts all Pods of a namespace as one caller', async () => {
    viewer = { namespace: 'bank' };
    await post('x');
    assert.equal(asked.at(-1)?.caller.id, 'namespace bank');
  });

  it('reserves what was sent, not what was announced', async () => {
    viewer = { namespace: 'bank' };
    const slow = Array.from({ length: 8 }, () => {
      const sending = request(`http://127.0.0.1:${(server.address() as AddressInfo).port}/debug/diffz`, {
        method: 'POST',
        headers: { 'content-length': 32 * 1024 * 1024 },
      });
      sending.on('error', () => {});
      sending.write('x');
      return sending;
    });
    for (let turns = 0; turns < 50; turns++) await nextTurn();
    assert.equal((await post(new Uint8Array(20 * 1024 * 1024))).status, 200);
    for (const each of slow) each.destroy();
  });

  it('refuses other methods, and a body that is too large without reading it', async () => {
    viewer = 'all';
    const { length } = asked;
    assert.equal((await post('', 'GET')).status, 405);
    assert.equal((await post(new Uint8Array(33 * 1024 * 1024)).catch(() => ({ status: 413 }))).status, 413);
    assert.equal(asked.length, length);
  });
});
