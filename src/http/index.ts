/** Entry point of the limits for the HTTP servers of both programs. */
export { type BoundedServerOptions, createBoundedServer, createBoundedTlsServer } from './bounded-server.ts';
export { answeredRequests } from './limits.ts';
