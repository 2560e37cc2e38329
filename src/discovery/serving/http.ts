/** Starts and stops plain HTTP servers. */
import type { RequestListener, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { CtlError } from '../../core/errors.ts';
import { createBoundedServer } from '../../http/index.ts';
import { getScope } from '../../logging/index.ts';

export interface HttpServer {
  readonly port: number;
  close(): Promise<void>;
}

/** Resolves when the server listens. Rejects with CtlError `unavailable` that names the flag and the address. */
export async function startHttpServer(
  flag: string,
  address: { readonly host: string | undefined; readonly port: number },
  listener: RequestListener,
): Promise<HttpServer> {
  const server = createBoundedServer({ name: flag, warn: (line) => getScope('default').warn(line) }, listener);
  await listen(server, flag, address);
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function listen(
  server: Server,
  flag: string,
  { host, port }: { readonly host: string | undefined; readonly port: number },
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      reject(new CtlError('unavailable', `cannot listen on ${host ?? ''}:${port} (${error.code})`, { field: flag }));
    });
    server.listen({ port, ...(host === undefined ? {} : { host }) }, () => {
      server.removeAllListeners('error');
      resolve();
    });
  });
}
