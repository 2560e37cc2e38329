/** Starts and stops plain HTTP servers. */
import type { RequestListener } from 'node:http';
import { type Address, listen } from '../../core/network/listen.ts';
import { closeServer, createBoundedServer } from '../../http/index.ts';
import { getScope } from '../../logging/index.ts';

export interface HttpServer {
  readonly port: number;
  close(): Promise<void>;
}

/** Resolves when the server listens. Rejects with CtlError `unavailable` that names the flag and the address. */
export async function startHttpServer(flag: string, address: Address, listener: RequestListener): Promise<HttpServer> {
  const warn = (line: string): void => getScope('default').warn(line);
  const server = createBoundedServer({ name: flag, warn }, listener);
  const port = await listen(server, flag, address, warn);
  return {
    port,
    close: () => closeServer(server),
  };
}
