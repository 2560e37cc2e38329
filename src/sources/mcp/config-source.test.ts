import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import { requestOf, resourcesMessage } from './testing/exchange.ts';
import { answer, COLLECTIONS, first, played, ROUTES } from './testing/played-source.ts';

test('a source is synced when it has answered for every collection, and the log names those that are missing', async () => {
  const { clock, streams, lines, store, source, isSynced } = played();
  const stream = await first(streams);
  stream.handler.opened();
  assert.deepEqual(
    stream.sent.map((bytes) => requestOf(bytes).collection),
    COLLECTIONS,
  );
  for (const collection of COLLECTIONS.slice(1)) answer(stream, collection, collection === ROUTES ? ['shop/web'] : []);
  assert.deepEqual([...store.documents.keys()], ['VirtualService/shop/web']);
  await clock.advance(10_000);
  assert.equal(isSynced(), false);
  assert.match(lines.join('\n'), /has not answered for istio\/security\/v1beta1\/authorizationpolicies; .*not ready/);
  const health = source.health();
  assert.ok(!health.ok && health.since === undefined && /authorizationpolicies/.test(health.reason));
  answer(stream, COLLECTIONS[0] ?? '');
  await clock.advance(0);
  assert.ok(isSynced());
  assert.deepEqual(source.health(), { ok: true });
});

test('a source that has no document at first is synced, and the log warns once', async () => {
  const emptySince = 'has no documents: it has answered for everything with nothing';
  const warnings = (lines: readonly string[]) => lines.filter((line) => line.includes(emptySince)).length;
  const [empty, full] = [played(), played()];
  for (const { streams } of [empty, full]) (await first(streams)).handler.opened();
  for (const { streams } of [empty, full])
    for (const collection of COLLECTIONS) {
      const names = streams === full.streams && collection === ROUTES ? ['shop/web'] : [];
      answer(await first(streams), collection, names);
    }
  answer(await first(empty.streams), ROUTES);
  await empty.clock.advance(0);
  assert.ok(empty.isSynced());
  assert.deepEqual([warnings(empty.lines), warnings(full.lines)], [1, 0]);
});

test('a stream that is lost is opened again, later after each failure, and everything stays in force', async () => {
  const { clock, streams, lines, store, source, reconnections } = played();
  let stream = await first(streams);
  stream.handler.opened();
  for (const collection of COLLECTIONS) answer(stream, collection, collection === ROUTES ? ['shop/web'] : []);
  const lost = new CtlError('unavailable', 'far:1 cannot be reached: connection refused');
  const waits: (number | undefined)[] = [];
  for (let failures = 1; failures <= 7; failures++) {
    stream.handler.ended(lost);
    // The last timer: an earlier one is that of the log's limit.
    waits.push(clock.pending().at(-1));
    await clock.advance(waits.at(-1) ?? 0);
    stream = await first(streams, failures);
  }
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 8000, 15_000, 15_000]);
  assert.equal(lines.filter((line) => line.includes('connection refused')).length, 1);
  const health = source.health();
  assert.ok(!health.ok && health.since === 0);
  assert.deepEqual([...store.documents.keys()], ['VirtualService/shop/web']);
  stream.handler.opened();
  assert.equal(reconnections(), 1);
  // The first answer ends the outage; what the source no longer has goes with the answer of its collection.
  answer(stream, COLLECTIONS[0] ?? '');
  assert.deepEqual(source.health(), { ok: true });
  assert.equal(store.documents.size, 1);
  answer(stream, ROUTES);
  assert.equal(store.documents.size, 0);
});

test('a response that needs too much memory is refused as a whole, and what was in force stays', async () => {
  const { streams, store, source } = played();
  const stream = await first(streams);
  stream.handler.opened();
  for (const collection of COLLECTIONS) answer(stream, collection, collection === ROUTES ? ['shop/web'] : []);
  const many = Array.from({ length: 200 }, (_, index) => `shop/web-${index}`);
  answer(stream, ROUTES, many);
  const health = source.health();
  assert.match(
    health.ok ? '' : health.reason,
    /its documents need at least \d+ bytes, of which a source may have at most 100000/,
  );
  const { errorDetail } = requestOf(stream.sent.at(-1) ?? new Uint8Array());
  assert.match(errorDetail?.message ?? '', /at most 100000/);
  assert.deepEqual([...store.documents.keys()], ['VirtualService/shop/web']);
});

test('the documents of a large response take effect together', async () => {
  const { streams, store, batches } = played(undefined, false, 10_000_000);
  const stream = await first(streams);
  stream.handler.opened();
  const many = Array.from({ length: 2500 }, (_, index) => `shop/web-${index}`);
  answer(stream, ROUTES, many);
  assert.deepEqual([store.documents.size, batches], [2500, [2500]]);
});

test('a document with a mistake is refused with its reason, and the others of the response are in force', async () => {
  const { streams, store } = played();
  const stream = await first(streams);
  stream.handler.opened();
  answer(stream, ROUTES, ['shop/web', 'web']);
  assert.deepEqual([...store.documents.keys()], ['VirtualService/shop/web']);
  assert.deepEqual([...store.problems], ['VirtualService#web']);
  const { errorDetail, responseNonce } = requestOf(stream.sent.at(-1) ?? new Uint8Array());
  assert.match(errorDetail?.message ?? '', /^refused documents: web: metadata.name: expected the name NAMESPACE\/NAME/);
  assert.equal(responseNonce, `n-${ROUTES}`);
  answer(stream, ROUTES, ['shop/web']);
  assert.equal(store.problems.size, 0);
  assert.equal(requestOf(stream.sent.at(-1) ?? new Uint8Array()).errorDetail, null);
});

test('a response with documents that have no name removes nothing, and the source is not healthy', async () => {
  const { streams, store, source } = played();
  const stream = await first(streams);
  stream.handler.opened();
  for (const collection of COLLECTIONS) answer(stream, collection, collection === ROUTES ? ['shop/a', 'shop/b'] : []);
  answer(stream, ROUTES, ['shop/a', '']);
  const { errorDetail } = requestOf(stream.sent.at(-1) ?? new Uint8Array());
  assert.match(errorDetail?.message ?? '', /1 resources that cannot be read or have no metadata\.name/);
  assert.deepEqual([...store.documents.keys()], ['VirtualService/shop/a', 'VirtualService/shop/b']);
  // Another collection that is answered does not hide it.
  answer(stream, COLLECTIONS[0] ?? '');
  const health = source.health();
  assert.match(
    health.ok ? '' : health.reason,
    /virtualservices: 1 resources that cannot be read or have no metadata\.name/,
  );
  answer(stream, ROUTES, ['shop/a']);
  assert.deepEqual(source.health(), { ok: true });
  assert.deepEqual([...store.documents.keys(), ...store.problems], ['VirtualService/shop/a']);
});

test('a resource that cannot be read removes nothing, and the others of the response are in force', async () => {
  const { streams, store, source } = played();
  const stream = await first(streams);
  stream.handler.opened();
  for (const collection of COLLECTIONS) answer(stream, collection, collection === ROUTES ? ['shop/a'] : []);
  const { handler } = stream;
  // After one that is complete, a resource whose metadata is said to be longer than it is.
  const cut = (message: Buffer) => handler.message(Buffer.concat([message, Buffer.from([0x1a, 2, 0x0a, 9])]));
  answer({ ...stream, handler: { ...handler, message: cut } }, ROUTES, ['shop/b']);
  const { errorDetail } = requestOf(stream.sent.at(-1) ?? new Uint8Array());
  assert.match(errorDetail?.message ?? '', /1 resources that cannot be read/);
  assert.deepEqual([...store.documents.keys()], ['VirtualService/shop/a', 'VirtualService/shop/b']);
  assert.ok(!stream.closed && !source.health().ok);
});

test('collections of the policy component that a source does not have are left out, until the stream is lost', async () => {
  const { clock, streams, lines, source, isSynced } = played();
  const policy = COLLECTIONS.filter((each) => /policy|config/.test(each));
  assert.equal(policy.length, 6);
  const unsupported = (name: string) =>
    new CtlError('invalid_argument', `far:1 returned: unsupported collection ${JSON.stringify(name)}`);
  for (const [index, name] of policy.entries()) {
    const stream = await first(streams, index);
    stream.handler.opened();
    const requested = stream.sent.map((bytes) => requestOf(bytes).collection);
    assert.deepEqual(
      requested,
      COLLECTIONS.filter((each) => !policy.slice(0, index).includes(each)),
    );
    stream.handler.ended(unsupported(name));
  }
  const stream = await first(streams, 6);
  stream.handler.opened();
  assert.equal(stream.sent.length, 10);
  for (const collection of COLLECTIONS.slice(0, 10)) answer(stream, collection);
  await clock.advance(0);
  assert.deepEqual([isSynced(), source.health()], [true, { ok: true }]);
  assert.match(
    lines.join('\n'),
    /mcp:\/\/far: the source has no collection istio\/policy\/v1beta1\/attributemanifests/,
  );
  stream.handler.ended(new CtlError('unavailable', 'gone'));
  await clock.advance(500);
  const again = await first(streams, 7);
  again.handler.opened();
  assert.equal(again.sent.length, COLLECTIONS.length);
  // Others are not optional.
  again.handler.ended(unsupported(ROUTES));
  const health = source.health();
  assert.match(health.ok ? '' : health.reason, /unsupported collection/);
});

test('a nonce that is too long is refused', async () => {
  const { streams, source } = played();
  const stream = await first(streams);
  stream.handler.opened();
  const [collection, nonce] = [ROUTES, 'n'.repeat(1025)];
  stream.handler.message(resourcesMessage({ collection, nonce }));
  const health = source.health();
  assert.match(health.ok ? '' : health.reason, /a nonce has 1025 characters/);
  assert.ok(stream.closed);
});

test('a version that is too long is refused', async () => {
  const { streams, source } = played();
  const stream = await first(streams);
  stream.handler.opened();
  const resources = [{ metadata: { name: 'shop/web', version: 'v'.repeat(1025) } }];
  stream.handler.message(resourcesMessage({ collection: ROUTES, nonce: 'n', resources }));
  const health = source.health();
  assert.match(health.ok ? '' : health.reason, /a version has 1025 characters/);
  assert.ok(stream.closed);
});

test('reasons that a server varies have a few lines in the log', async () => {
  const { streams, lines } = played();
  const stream = await first(streams);
  stream.handler.opened();
  for (let index = 0; index < 100; index++) answer(stream, `collection ${index}`);
  assert.equal(lines.filter((line) => line.includes('was not requested')).length, 5);
});

test('a server that is pinged too often is pinged rarely from then on', async () => {
  const { clock, streams } = played();
  const { handler, keepaliveMs } = await first(streams);
  handler.pingedTooOften?.();
  handler.ended(new CtlError('unavailable', 'far:1 closes the connection'));
  await clock.advance(500);
  assert.deepEqual([keepaliveMs, (await first(streams, 1)).keepaliveMs], [1000, 310_000]);
  for (let times = 1; times < 20; times++) {
    const stream = await first(streams, times);
    stream.handler.pingedTooOften?.();
    stream.handler.ended(new CtlError('unavailable', 'far:1 closes the connection'));
    await clock.advance(15_000);
  }
  assert.equal((await first(streams, 20)).keepaliveMs, 3_600_000);
});

test('a renewed certificate opens another connection at once', async () => {
  let renewed = (): void => {};
  let serverName = 'one';
  const { streams, store } = played({
    current: async () => ({ roots: undefined, client: undefined, serverName }),
    onChange: (listener) => {
      renewed = listener;
      return () => {};
    },
  });
  const stream = await first(streams);
  assert.equal(stream.tls?.serverName, 'one');
  stream.handler.opened();
  answer(stream, ROUTES, ['shop/web']);
  serverName = 'two';
  renewed();
  const next = await first(streams, 1);
  assert.deepEqual([stream.closed, next.tls?.serverName, store.documents.size], [true, 'two', 1]);
});

test('a certificate that cannot be read is tried again', async () => {
  let fault: CtlError | undefined = new CtlError('failed_precondition', 'tlsSettings.privateKey: /k cannot be read');
  const { clock, streams, lines } = played({
    current: () =>
      fault === undefined ? Promise.resolve({ roots: '', client: undefined, serverName: '' }) : Promise.reject(fault),
    onChange: () => () => {},
  });
  await clock.advance(0);
  assert.deepEqual(lines, [
    'mcp://far: tlsSettings.privateKey: /k cannot be read; its documents stay in force as they are',
  ]);
  fault = undefined;
  await clock.advance(500);
  await first(streams);
});

test('a response is answered when its documents are applied, and a stream ends whose documents cannot be', async () => {
  const applications: PromiseWithResolvers<void>[] = [];
  const { streams, isSynced, source } = played(undefined, false, 100_000, () => {
    const application = Promise.withResolvers<void>();
    applications.push(application);
    return application.promise;
  });
  const stream = await first(streams);
  stream.handler.opened();
  for (const collection of COLLECTIONS) answer(stream, collection, collection === ROUTES ? ['shop/web'] : []);
  const sent = stream.sent.length;
  answer(stream, ROUTES, ['shop/web', 'shop/other']);
  await first(streams);
  assert.deepEqual([applications.length, stream.sent.length, isSynced()], [1, sent, false]);
  applications[0]?.resolve();
  await first(streams);
  assert.deepEqual([applications.length, isSynced(), source.health().ok], [2, true, true]);
  applications[1]?.reject(new Error('a bug'));
  await first(streams);
  const health = source.health();
  assert.deepEqual(
    [stream.closed, health.ok ? '' : health.reason],
    [true, 'mcp://far: cannot apply VirtualService/shop/other: a bug'],
  );
});

test('a response that is delayed is answered when it is applied, and others are read meanwhile', async () => {
  const applications: PromiseWithResolvers<void>[] = [];
  const apply = (): Promise<void> => {
    applications.push(Promise.withResolvers());
    return applications.at(-1)?.promise ?? assert.fail();
  };
  const { streams, isSynced } = played(undefined, false, 100_000, apply, () => true);
  const stream = await first(streams);
  stream.handler.opened();
  const others = COLLECTIONS.filter((each) => each !== ROUTES);
  const sent = stream.sent.length;
  answer(stream, ROUTES, ['shop/web']);
  for (const collection of others) answer(stream, collection);
  await first(streams);
  assert.deepEqual([applications.length, stream.sent.length, isSynced()], [1, sent + others.length, false]);
  applications[0]?.resolve();
  await first(streams);
  assert.deepEqual([stream.sent.length, isSynced()], [sent + COLLECTIONS.length, true]);
});

/** A sink of which the test ends each application, and TLS settings that it renews. */
function applying() {
  const applications: PromiseWithResolvers<void>[] = [];
  const apply = (): Promise<void> => {
    applications.push(Promise.withResolvers());
    return applications.at(-1)?.promise ?? assert.fail();
  };
  let renew = (): void => {};
  const tls = {
    current: async () => ({ roots: undefined, client: undefined, serverName: 'far' }),
    onChange: (listener: () => void) => {
      renew = listener;
      return () => {};
    },
  };
  return { applications, apply, tls, renewed: () => renew() };
}

test('a response that was delayed is not answered on the next stream', async () => {
  const { applications, apply, tls, renewed } = applying();
  const { streams } = played(tls, false, 100_000, apply, () => true);
  const stream = await first(streams);
  stream.handler.opened();
  answer(stream, ROUTES, ['shop/web']);
  renewed();
  const next = await first(streams, 1);
  next.handler.opened();
  const sent = next.sent.length;
  applications[0]?.resolve();
  await first(streams);
  assert.deepEqual([next.sent.length, stream.sent.length], [sent, COLLECTIONS.length]);
});

test('one stream is opened when documents cannot be applied while it is opened anew', async () => {
  const { applications, apply, tls, renewed } = applying();
  const { clock, streams } = played(tls, false, 100_000, apply);
  const stream = await first(streams);
  stream.handler.opened();
  answer(stream, ROUTES, ['shop/web']);
  renewed();
  applications[0]?.reject(new Error('a bug'));
  await clock.advance(60_000);
  assert.deepEqual([streams.length, streams.map(({ closed }) => closed)], [2, [true, false]]);
});

test('what could not be applied is sent again on the next stream, though the server sends nothing', async () => {
  const { applications, apply } = applying();
  const { clock, streams, isSynced } = played(undefined, false, 100_000, apply);
  const stream = await first(streams);
  stream.handler.opened();
  for (const collection of COLLECTIONS) if (collection !== ROUTES) answer(stream, collection);
  answer(stream, ROUTES, ['shop/web']);
  applications[0]?.reject(new Error('a bug'));
  await clock.advance(500);
  (await first(streams, 1)).handler.opened();
  await first(streams);
  assert.deepEqual([applications.length, isSynced()], [2, false]);
  applications[1]?.reject(new Error('a bug'));
  await clock.advance(1000);
  (await first(streams, 2)).handler.opened();
  applications[2]?.resolve();
  await first(streams);
  assert.deepEqual([applications.length, streams.map(({ closed }) => closed)], [3, [true, true, false]]);
});

test('a server learns which documents were refused because of an internal error, until they are in force', async () => {
  const refusals = new Map<string, string>();
  const { streams, store } = played(undefined, false, 100_000, undefined, undefined, () => refusals);
  const stream = await first(streams);
  stream.handler.opened();
  const last = () => {
    const { errorDetail, responseNonce } = requestOf(stream.sent.at(-1) ?? new Uint8Array());
    return [responseNonce, errorDetail?.code, errorDetail?.message];
  };
  refusals.set('VirtualService/shop/b', 'cannot be applied because of an internal error: a bug');
  refusals.set('VirtualService/shop/other', 'it is not of this response');
  const refused = 'refused documents: shop/b: cannot be applied because of an internal error: a bug';
  answer(stream, ROUTES, ['shop/a', 'shop/b']);
  assert.deepEqual([last(), store.documents.size], [[`n-${ROUTES}`, 3, refused], 2]);
  answer(stream, ROUTES, ['shop/a', 'shop/b', 'web']);
  assert.match(String(last()[2]), /^refused documents: web: metadata.name: .*; shop\/b: cannot be applied because/);
  refusals.delete('VirtualService/shop/b');
  answer(stream, ROUTES, ['shop/a', 'shop/b']);
  assert.deepEqual(last(), [`n-${ROUTES}`, undefined, undefined]);
});
