/** What the plain HTTP servers of both programs share. */
export { type BoundedServerOptions, createBoundedServer } from './bounded-server.ts';
