/** Entry point of what the HTTP servers of both programs share. */
export {
  type BoundedServerOptions,
  closeServer,
  createBoundedServer,
  createBoundedTlsServer,
} from './bounded-server.ts';
export { goneSignal } from './gone-signal.ts';
export { answeredRequests } from './limits.ts';
