/** Following a collection of an API server that is silent, sends what cannot be read, or has no streaming lists. */
import assert from 'node:assert/strict';
import { constants, type ServerHttp2Stream } from 'node:http2';
import { afterEach, describe, test } from 'node:test';
import { systemClock } from '../core/clock.ts';
import { CtlError } from '../core/errors.ts';
import { waitUntil } from '../core/testing/wait-until.ts';
import { Connection } from './connection.ts';
import { Reflector } from './reflector.ts';
import { cleanup, closeAll, follow, gateway, PATH, scripted, TYPE } from './testing/followed-reflector.ts';
import { type SeenRequest, statusObject } from './testing/scripted-api-server.ts';

afterEach(closeAll);

describe('a reflector of an API server that fails', () => {
  test('lists again when no bookmark is received for a long time, as after etcd was restored from a backup', async () => {
    const server = await scripted('a', 'lost');
    const { names, lists } = await follow(server, { watchSeconds: 100_000 });
    await waitUntil(() => names() === 'a,lost');
    server.bookmark();
    server.set(PATH, gateway('b'));
    await waitUntil(() => names() === 'a,b,lost');
    // The server has an older version of everything: it sends nothing to a watch from this one.
    const silent: ServerHttp2Stream[] = [];
    server.intercept = ({ query }, stream) => {
      if (query.has('sendInitialEvents')) return false;
      stream.respond({ ':status': 200, 'content-type': 'application/json' });
      silent.push(stream);
      return true;
    };
    server.endWatches();
    await waitUntil(() => silent.length === 1);
    server.remove(PATH, { name: 'lost', namespace: 'shop' });
    await waitUntil(() => names() === 'a,b');
    assert.equal(lists(), 2);
  });

  test('lists again when short watches bring no bookmark for a long time', async () => {
    const server = await scripted('a');
    const { lists } = await follow(server);
    await waitUntil(() => lists() === 1);
    server.bookmark();
    server.set(PATH, gateway('b'));
    server.intercept = ({ query }, stream) => {
      if (query.has('sendInitialEvents')) return false;
      stream.respond({ ':status': 200, 'content-type': 'application/json' });
      setTimeout(() => stream.end(), 30_000 / 50);
      return true;
    };
    server.endWatches();
    await waitUntil(() => lists() === 2);
  });

  test('keeps a silent watch open where the server sends no bookmarks', async () => {
    const server = await scripted('a');
    const { lists } = await follow(server, { watchSeconds: 300 });
    await waitUntil(() => lists() === 1);
    const resumed = () => server.requests.filter(({ query }) => query.has('resourceVersion')).length;
    await waitUntil(() => resumed() === 1);
    assert.equal(lists(), 1);
  });

  test('lists again after an event that cannot be read, and continues behind it', async () => {
    const server = await scripted('a');
    const { names, calls, lists } = await follow(server);
    await waitUntil(() => names() === 'a');
    server.intercept = ({ query }, stream) => {
      if (query.has('sendInitialEvents')) return false;
      const event = { type: 'MODIFIED', object: { spec: 'without a name' } };
      stream.respond({ ':status': 200, 'content-type': 'application/json' });
      stream.write(`${JSON.stringify(event)}\n`);
      return true;
    };
    server.endWatches();
    await waitUntil(() => lists() === 2);
    server.set(PATH, gateway('b'));
    await waitUntil(() => names() === 'a,b');
    assert.equal(calls.filter((call) => call === 'watch failed').length, 1);
  });

  test('reports changes again that were not taken', async () => {
    const server = await scripted('a');
    let refusing = true;
    const { names, calls } = await follow(server, {
      onChange: () => {
        if (refusing) throw new Error('not now');
      },
    });
    await waitUntil(() => names() === 'a');
    server.set(PATH, gateway('b'));
    await waitUntil(() => calls.includes('watch failed'));
    refusing = false;
    await waitUntil(() => names() === 'a,b');
  });

  test('pauses when the server forgets each version as soon as it has listed it', async () => {
    const server = await scripted('a');
    const times: number[] = [];
    server.intercept = ({ query }, stream) => {
      if (!query.has('sendInitialEvents')) return false;
      times.push(systemClock.now());
      const bookmark = { resourceVersion: '102', annotations: { 'k8s.io/initial-events-end': 'true' } };
      stream.respond({ ':status': 200, 'content-type': 'application/json' });
      stream.write(`${JSON.stringify({ type: 'ADDED', object: gateway('a') })}\n`);
      stream.write(`${JSON.stringify({ type: 'BOOKMARK', object: { metadata: bookmark } })}\n`);
      stream.end(`${JSON.stringify({ type: 'ERROR', object: statusObject(410, 'Expired') })}\n`);
      return true;
    };
    const { names } = await follow(server);
    await waitUntil(() => times.length >= 6);
    assert.equal(names(), 'a');
    // Pauses of 0.5, 1, 2, 4 and 8 s, by the clock of the test, 50 times as fast.
    assert.ok((times[5] ?? 0) - (times[0] ?? 0) >= 15_500 / 50);
  });

  test('waits twice as long for a bookmark after each list that a silent watch has caused', async () => {
    const server = await scripted('a');
    const speed = 200;
    const { names, lists } = await follow(server, { watchSeconds: 100_000, speed });
    let silentAt = Number.POSITIVE_INFINITY;
    for (const count of [1, 2]) {
      await waitUntil(() => lists() === count && server.watches(PATH) === 1);
      server.bookmark();
      server.set(PATH, gateway(`b${count}`));
      await waitUntil(() => names().endsWith(`b${count}`));
      server.intercept = ({ query }, stream) => {
        if (query.has('sendInitialEvents')) return false;
        stream.respond({ ':status': 200, 'content-type': 'application/json' });
        silentAt = systemClock.now();
        return true;
      };
      server.endWatches();
    }
    await waitUntil(() => lists() === 3);
    assert.ok(systemClock.now() - silentAt >= 300_000 / speed);
  });

  test('refuses a list that begins again in place of its next page', async () => {
    const server = await scripted('a');
    server.streamingLists = false;
    let pages = 0;
    server.intercept = ({ query }, stream) => {
      if (!query.has('limit')) return false;
      pages++;
      const metadata = { resourceVersion: '101', continue: 'same' };
      return server.json(stream, { kind: 'List', metadata, items: [gateway('a')] });
    };
    const { calls } = await follow(server);
    await waitUntil(() => calls.includes('list failed'));
    assert.equal(pages, 2);
  });

  const withoutStreams: Readonly<Record<string, (request: SeenRequest, stream: ServerHttp2Stream) => void>> = {
    'does not allow the method': (_, stream) => {
      stream.respond({ ':status': 405 });
      stream.end();
    },
    'ignores what it does not know and never ends the list': (_, stream) => {
      stream.respond({ ':status': 200, 'content-type': 'application/json' });
      stream.write(`${JSON.stringify({ type: 'ADDED', object: gateway('a') })}\n`);
    },
    'answers with an internal error': (_, stream) => {
      stream.respond({ ':status': 500 });
      stream.end('oops');
    },
    'breaks every stream': (_, stream) => {
      stream.respond({ ':status': 200 });
      stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    },
  };
  for (const [name, answer] of Object.entries(withoutStreams)) {
    test(`lists in pages where something between ${name} when a streaming list is asked for`, async () => {
      const server = await scripted('a');
      server.intercept = (request, stream) => {
        if (!request.query.has('sendInitialEvents')) return false;
        answer(request, stream);
        return true;
      };
      const { names } = await follow(server);
      await waitUntil(() => names() === 'a' && server.watches(PATH) === 1);
    });
  }

  test('waits a long time before it reads a list that is too large again', async () => {
    const server = await scripted('a');
    const waits: number[] = [];
    const clock = {
      now: systemClock.now,
      setTimer: (ms: number, run: () => void) => {
        waits.push(ms);
        return systemClock.setTimer(ms, run);
      },
    };
    const random = () => 0;
    const connection = new Connection({ access: server.access(), clock: systemClock, random, userAgent: 'test' });
    const failures: string[] = [];
    const reflector = new Reflector<never>(
      { connection, type: TYPE, clock, random },
      {
        convert: () => {
          throw new CtlError('resource_exhausted', 'expected less');
        },
        onList: () => assert.fail('nothing fits'),
        onChanges: () => assert.fail('nothing fits'),
        onFailure: (error, verb) => failures.push(`${verb}: ${error.message}`),
        onRecovered: () => {},
      },
    );
    cleanup.push(async () => {
      await reflector.close();
      connection.close();
    });
    reflector.start();
    await waitUntil(() => waits.includes(120_000));
    assert.deepEqual(failures, ['list: expected less']);
  });
});
