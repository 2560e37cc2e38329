/** Test support: a transport without a connection, whose writes end at once. */
import type { Transport } from '../server/transport.ts';

export const QUIET_TRANSPORT: Transport = {
  peer: '192.0.2.1:1',
  read: () => {},
  send: (_chunks, done) => done('drained'),
  copiedBytes: () => 0,
  pause: () => {},
  resume: () => {},
  fail: () => {},
  end: () => {},
  abort: () => {},
  retireConnection: () => {},
};
