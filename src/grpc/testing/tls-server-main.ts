/**
 * A process with a server over TLS, whose memory a test reads: it sends the port when it listens, and on any message
 * its resident bytes after a garbage collection. Needs --expose-gc.
 */
import { startServer } from './server.ts';

const { TEST_KEY: key = '', TEST_CERT: cert = '' } = process.env;
const { port } = await startServer({
  listeners: [
    {
      host: '127.0.0.1',
      port: 0,
      tls: { options: { handshakeTimeout: 60_000 }, context: () => ({ key, cert }), onRenew: () => () => {} },
    },
  ],
});
process.on('message', () => {
  global.gc?.();
  // Finalizers run in a later turn.
  setTimeout(() => {
    global.gc?.();
    process.send?.(process.memoryUsage.rss());
  }, 50);
});
process.once('disconnect', () => process.exit());
process.send?.(port);
