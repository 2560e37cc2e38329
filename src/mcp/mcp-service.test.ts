import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CtlError } from '../core/errors.ts';
import { fakeClock } from '../core/testing/fake-clock.ts';
import type { StreamCall } from '../grpc/index.ts';
import { createMcpService } from './mcp-service.ts';
import { ServedDocuments } from './served-documents.ts';

const PATH = '/istio.mcp.v1alpha1.ResourceSource/EstablishResourceStream';

interface Called {
  readonly call: StreamCall;
  readonly ends: (string | undefined)[];
  opened: boolean;
  retired: boolean;
}

/** A call that is not one of a real connection. */
function called(): Called {
  const [ends, listeners]: [(string | undefined)[], (() => void)[]] = [[], []];
  let closed = false;
  const end = (error?: CtlError): void => {
    ends.push(error?.code);
    closed = true;
    for (const listener of listeners.splice(0)) listener();
  };
  const found: Called = {
    ends,
    opened: false,
    retired: false,
    call: {
      path: PATH,
      metadata: { get: () => [] },
      connection: { peer: '192.0.2.1:1', address: '192.0.2.1', secured: undefined },
      get closed() {
        return closed;
      },
      open: () => {
        found.opened = true;
      },
      read: () => {},
      pause: () => {},
      resume: () => {},
      write: () => assert.fail('nothing was asked for'),
      end,
      reply: () => end(),
      abort: () => end(),
      retireConnection: () => {
        found.retired = true;
      },
      isOf: () => {},
      onClose: (listener) => void (closed ? listener() : listeners.push(listener)),
    },
  };
  return found;
}

/** A service whose readers have streams that last a minute. */
function service() {
  const clock = fakeClock();
  const counts: number[] = [];
  const served = new ServedDocuments({ read: () => undefined, delayMs: 0, clock, onLeftOut: () => {} });
  const made = createMcpService({
    served,
    authorize: async () => ({ key: 'one', maxStreamMs: 60_000 }),
    maxReceiveBytes: 1000,
    observer: {
      clients: (count) => void counts.push(count),
      received: () => {},
      acknowledged: () => {},
      rejected: () => {},
      receiveFailed: () => {},
      sendFailed: () => {},
      refused: (_peer, error) => assert.fail(error),
      internalError: (error) => assert.fail(String(error)),
    },
    clock,
  });
  const open = async (): Promise<Called> => {
    const found = called();
    made.streams?.[PATH]?.(found.call);
    await clock.advance(0);
    return found;
  };
  return { clock, counts, made, open };
}

test('a stream ends when its time is over, and its connection takes no other', async () => {
  const { clock, counts, open } = service();
  const one = await open();
  await clock.advance(59_999);
  assert.deepEqual([one.opened, one.ends, one.retired], [true, [], false]);
  await clock.advance(1);
  assert.deepEqual([one.ends, one.retired], [['unavailable'], true]);
  assert.deepEqual(counts, [1, 0]);
  assert.deepEqual(clock.pending(), []);
});

test('a service that is closed ends its streams, and serves no others', async () => {
  const { clock, counts, made, open } = service();
  const streams = [await open(), await open()];
  made.close();
  const late = await open();
  assert.deepEqual(
    [...streams, late].map(({ ends, opened }) => [ends, opened]),
    [
      [['unavailable'], true],
      [['unavailable'], true],
      [['unavailable'], false],
    ],
  );
  assert.deepEqual([counts, clock.pending()], [[1, 2, 1, 0], []]);
});
