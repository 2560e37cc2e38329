/** Entry point of limits for the plain HTTP servers of both programs. */
export { type BoundedServerOptions, createBoundedServer } from './bounded-server.ts';
