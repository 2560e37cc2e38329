/** Following a collection of a scripted API server: what it reports, whatever the server and the connection do. */
import assert from 'node:assert/strict';
import { constants, type ServerHttp2Stream } from 'node:http2';
import { afterEach, describe, test } from 'node:test';
import { systemClock } from '../core/clock.ts';
import { waitUntil } from '../core/testing/wait-until.ts';
import { cleanup, closeAll, follow, gateway, listRequests, PATH, scripted } from './testing/followed-reflector.ts';
import { startRelay } from './testing/relay.ts';
import type { SeenRequest } from './testing/scripted-api-server.ts';

afterEach(closeAll);

describe('a reflector of a scripted API server', () => {
  test('lists the collection and then reports changes, over one request', async () => {
    const server = await scripted('a', 'b');
    const { calls, names } = await follow(server);
    await waitUntil(() => names() === 'a,b');
    server.set(PATH, gateway('c'));
    server.remove(PATH, { name: 'a', namespace: 'shop' });
    server.set(PATH, gateway('b', { x: 1 }));
    await waitUntil(() => calls.includes('set b'));
    assert.deepEqual(calls, ['list a,b', 'set c', 'delete a', 'set b']);
    assert.equal(server.requests.length, 1);
  });

  test('lists in pages where the server has no streaming lists, and watches from the end of the list', async () => {
    const server = await scripted();
    server.streamingLists = false;
    for (let index = 0; index < 1100; index++) server.set(PATH, gateway(`g${index}`));
    const { objects, calls } = await follow(server);
    await waitUntil(() => objects.size === 1100);
    await waitUntil(() => server.watches(PATH) === 1);
    server.set(PATH, gateway('late'));
    await waitUntil(() => calls.includes('set late'));
    const pages = server.requests.filter(({ query }) => query.get('limit') === '500');
    assert.deepEqual(
      pages.map(({ query }) => query.get('continue')),
      [null, '500', '1000'],
    );
  });

  for (const streaming of [true, false]) {
    test(`pauses within a list ${streaming ? 'that is streamed' : 'in pages'} where it is told to, and ends meanwhile`, async () => {
      const server = await scripted();
      server.streamingLists = streaming;
      for (let index = 0; index < 1100; index++) server.set(PATH, gateway(`g${index}`, 'x'.repeat(1000)));
      const read: number[] = [];
      const pause = (objects: number): number => {
        read.push(objects);
        return 3_600_000;
      };
      const { calls, reflector } = await follow(server, { pause });
      await waitUntil(() => read.length > 0);
      for (let turn = 0; turn < 100; turn++) await new Promise((resolve) => setImmediate(resolve));
      assert.ok(read.reduce((sum, objects) => sum + objects, 0) < 1100, `${read}`);
      assert.deepEqual(calls, []);
      await reflector.close();
    });
  }

  test('restarts a list whose next page has expired, and reports nothing of the first part', async () => {
    const server = await scripted();
    server.streamingLists = false;
    for (let index = 0; index < 600; index++) server.set(PATH, gateway(`g${index}`));
    let expired = false;
    server.intercept = ({ query }, stream) => {
      if (!query.has('continue') || expired) return false;
      expired = true;
      return server.fail(stream, 410, 'Expired');
    };
    const { calls, objects } = await follow(server);
    await waitUntil(() => objects.size === 600);
    assert.equal(calls.length, 1);
  });

  test('resumes from the last version when the server ends the watch, without a list', async () => {
    const server = await scripted('a');
    const { calls, names } = await follow(server);
    await waitUntil(() => names() === 'a');
    server.set(PATH, gateway('b'));
    await waitUntil(() => names() === 'a,b');
    server.endWatches();
    server.set(PATH, gateway('c'));
    await waitUntil(() => names() === 'a,b,c');
    assert.deepEqual(calls, ['list a', 'set b', 'set c']);
    assert.equal(listRequests(server).length, 1);
  });

  test('resumes from the version of the last bookmark', async () => {
    const server = await scripted('a');
    const { names } = await follow(server);
    await waitUntil(() => names() === 'a');
    server.set('/api/v1/others', { metadata: { name: 'x' } });
    server.bookmark();
    // The bookmark has been read once an event behind it has.
    server.set(PATH, gateway('b'));
    await waitUntil(() => names() === 'a,b');
    server.endWatches();
    await waitUntil(() => server.requests.length === 2);
    assert.equal(server.requests[1]?.query.get('resourceVersion'), '103');
  });

  for (const goneAs of ['status', 'event'] as const) {
    test(`lists again when its version is forgotten (410 as ${goneAs})`, async () => {
      const server = await scripted('a', 'b');
      server.goneAs = goneAs;
      const { calls, names, lists } = await follow(server);
      await waitUntil(() => names() === 'a,b');
      // Both while there is no watch.
      server.intercept = ({ query }, stream) => !query.has('sendInitialEvents') && server.fail(stream, 503);
      server.endWatches();
      await waitUntil(() => calls.includes('watch failed'));
      server.remove(PATH, { name: 'a', namespace: 'shop' });
      server.set(PATH, gateway('c'));
      server.compact();
      server.intercept = () => false;
      await waitUntil(() => names() === 'b,c');
      assert.equal(lists(), 2);
    });
  }

  test('lists again when the server does not know its version yet (504)', async () => {
    const server = await scripted('a');
    const { names, lists } = await follow(server);
    await waitUntil(() => names() === 'a');
    server.intercept = ({ query }, stream) => !query.has('sendInitialEvents') && server.fail(stream, 504, 'Timeout');
    server.endWatches();
    await waitUntil(() => lists() === 2);
  });

  const faults: Readonly<Record<string, (request: SeenRequest, stream: ServerHttp2Stream) => void>> = {
    'a status 500': (_, stream) => {
      stream.respond({ ':status': 500 });
      stream.end('oops');
    },
    'an empty body': (_, stream) => {
      stream.respond({ ':status': 200, 'content-type': 'application/json' });
      stream.end();
    },
    'an empty object': (_, stream) => {
      stream.respond({ ':status': 200, 'content-type': 'application/json' });
      stream.end('{}');
    },
    'a page of a proxy': (_, stream) => {
      stream.respond({ ':status': 200, 'content-type': 'text/html' });
      stream.end('<html>please log in</html>\n');
    },
    'an error whose body never ends': (_, stream) => {
      stream.respond({ ':status': 503 });
      stream.write('{');
    },
    'a list that takes longer than a watch may last': (_, stream) => {
      stream.respond({ ':status': 200, 'content-type': 'application/json' });
      const timer = setInterval(
        () => stream.write(`${JSON.stringify({ type: 'ADDED', object: gateway('a') })}\n`),
        100,
      );
      stream.on('close', () => clearInterval(timer));
    },
    'a list that is cut off': (_, stream) => {
      stream.respond({ ':status': 200, 'content-type': 'application/json' });
      stream.write(`${JSON.stringify({ type: 'ADDED', object: gateway('a') })}\n`, () =>
        stream.close(constants.NGHTTP2_INTERNAL_ERROR),
      );
    },
    'a list that ends before its last object': (_, stream) => {
      stream.respond({ ':status': 200, 'content-type': 'application/json' });
      stream.end(`${JSON.stringify({ type: 'ADDED', object: gateway('a') })}\n`);
    },
  };
  for (const [name, fault] of Object.entries(faults)) {
    test(`keeps its objects when a list is answered by ${name}`, async () => {
      const server = await scripted('a', 'b');
      const { calls, names, lists } = await follow(server, { watchSeconds: 1 });
      await waitUntil(() => names() === 'a,b');
      let faulty = 0;
      server.intercept = (request, stream) => {
        if (!request.query.has('sendInitialEvents') && !request.query.has('limit')) return false;
        faulty++;
        fault(request, stream);
        return true;
      };
      server.compact();
      server.endWatches();
      await waitUntil(() => faulty >= 2);
      assert.equal(names(), 'a,b');
      assert.equal(lists(), 1);
      assert.ok(calls.includes('list failed'));
      server.intercept = () => false;
      await waitUntil(() => lists() === 2 && calls.at(-1) === 'recovered');
      assert.equal(names(), 'a,b');
    });
  }

  test('keeps its objects while the server is unavailable, and resumes where it was', async () => {
    const server = await scripted('a');
    const { calls, names } = await follow(server);
    await waitUntil(() => names() === 'a');
    let refusing = true;
    server.intercept = (_, stream) => {
      if (refusing) stream.session?.destroy();
      return refusing;
    };
    server.disconnect();
    await waitUntil(() => server.connections >= 4);
    server.set(PATH, gateway('b'));
    refusing = false;
    await waitUntil(() => names() === 'a,b');
    assert.ok(!calls.includes('list a,b'));
  });

  test('resumes over another connection when the server sends GOAWAY', async () => {
    const server = await scripted('a');
    const { names, lists } = await follow(server);
    await waitUntil(() => names() === 'a');
    server.goaway();
    server.set(PATH, gateway('b'));
    await waitUntil(() => names() === 'a,b');
    server.endWatches();
    await waitUntil(() => server.connections === 2);
    server.set(PATH, gateway('c'));
    await waitUntil(() => names() === 'a,b,c');
    assert.equal(lists(), 1);
  });

  test('notices a connection that answers no PING', async () => {
    const server = await scripted('a');
    const relay = await startRelay(server.port);
    cleanup.push(() => relay.close());
    const { names } = await follow(server, { port: relay.port, watchSeconds: 100_000 });
    await waitUntil(() => names() === 'a');
    relay.freeze();
    await waitUntil(() => server.connections === 2 && server.watches(PATH) >= 1);
    server.set(PATH, gateway('b'));
    await waitUntil(() => names() === 'a,b');
  });

  test('notices a silent connection that takes no more requests after GOAWAY', async () => {
    const server = await scripted('a');
    const relay = await startRelay(server.port);
    cleanup.push(() => relay.close());
    const { names } = await follow(server, { port: relay.port, watchSeconds: 100_000 });
    await waitUntil(() => names() === 'a');
    server.goaway();
    server.set(PATH, gateway('b'));
    await waitUntil(() => names() === 'a,b');
    relay.freeze();
    await waitUntil(() => server.connections === 2 && server.watches(PATH) >= 1);
    server.set(PATH, gateway('c'));
    await waitUntil(() => names() === 'a,b,c');
  });

  test('waits as long as Retry-After asks for', async () => {
    const server = await scripted('a');
    const times: number[] = [];
    server.intercept = (_, stream) => {
      times.push(systemClock.now());
      return times.length === 1 && server.fail(stream, 429, 'TooManyRequests', { 'retry-after': '20' });
    };
    const { names, failures } = await follow(server);
    await waitUntil(() => names() === 'a');
    assert.equal(failures[0]?.retryAfterMs, 20_000);
    // By the clock of the test, 50 times as fast.
    assert.ok((times[1] ?? 0) - (times[0] ?? 0) >= 20_000 / 50);
  });

  test('reports a collection that is forbidden and reads it once it is allowed', async () => {
    const server = await scripted('a');
    let forbidden = true;
    server.intercept = (_, stream) => forbidden && server.fail(stream, 403, 'Forbidden');
    const { names, failures, calls } = await follow(server);
    await waitUntil(() => failures.length >= 3);
    assert.equal(failures[0]?.code, 'permission_denied');
    forbidden = false;
    await waitUntil(() => names() === 'a');
    assert.deepEqual(calls.slice(-2), ['list a', 'recovered']);
  });

  test('waits longer and longer when the server ends each watch at once', async () => {
    const server = await scripted('a');
    const { names, calls } = await follow(server);
    await waitUntil(() => names() === 'a');
    server.intercept = ({ query }, stream) => {
      if (query.has('sendInitialEvents')) return false;
      stream.respond({ ':status': 200, 'content-type': 'application/json' });
      stream.end();
      return true;
    };
    server.endWatches();
    await waitUntil(() => calls.filter((call) => call === 'watch failed').length >= 3);
    assert.equal(names(), 'a');
  });

  test('pauses when the server ends each watch after one frame', async () => {
    const server = await scripted('a');
    const { names } = await follow(server);
    await waitUntil(() => names() === 'a');
    const times: number[] = [];
    server.intercept = (_, stream) => {
      times.push(systemClock.now());
      const bookmark = { type: 'BOOKMARK', object: { metadata: { resourceVersion: '102' } } };
      stream.respond({ ':status': 200, 'content-type': 'application/json' });
      stream.end(`${JSON.stringify(bookmark)}\n`);
      return true;
    };
    server.endWatches();
    await waitUntil(() => times.length >= 6);
    // At most one a second, by the clock of the test, 50 times as fast.
    assert.ok((times[5] ?? 0) - (times[0] ?? 0) >= (5 * 900) / 50);
  });

  for (const [name, body] of Object.entries({
    'a list without items': { metadata: { resourceVersion: '900' } },
    'an object that is not a list': { kind: 'Gateway', metadata: { name: 'x', resourceVersion: '900' }, spec: {} },
  })) {
    test(`keeps what it reported when the response to a page is ${name}`, async () => {
      const server = await scripted('a');
      server.streamingLists = false;
      const { names, calls } = await follow(server);
      await waitUntil(() => names() === 'a' && server.watches(PATH) === 1);
      server.intercept = ({ query }, stream) => query.has('limit') && server.json(stream, body);
      server.compact();
      server.endWatches();
      await waitUntil(() => calls.includes('list failed'));
      assert.equal(names(), 'a');
    });
  }
});
