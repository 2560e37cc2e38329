/** What serves documents of a test: programs of other projects, and a stand-in that sends half of a message. */
import { rename, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http2';
import { join } from 'node:path';
import { freePort, type Owner, tempDir } from '../../harness/index.ts';
import { type IstioEnd, startConfigServer, startIstioEnd } from '../../mcp/build.ts';
import type { Document } from './config.ts';

export interface DocumentServer {
  /** Of the process that runs. */
  end: IstioEnd;
  /** In `configSources`. */
  readonly address: string;
  /** Id of the source. */
  readonly id: string;
  serve(...documents: readonly Document[]): Promise<void>;
  /** Starts it again, after it was killed. */
  restart(...more: readonly string[]): Promise<void>;
}

export const NETWORKING = 'istio/networking/v1alpha3';

/** The message and the collection of a kind. */
const SERVED: Readonly<Record<string, readonly [message: string, collection: string]>> = {
  AuthorizationPolicy: ['istio.security.v1beta1.AuthorizationPolicy', 'istio/security/v1beta1/authorizationpolicies'],
  Gateway: ['istio.networking.v1alpha3.Gateway', `${NETWORKING}/gateways`],
  ServiceEntry: ['istio.networking.v1alpha3.ServiceEntry', `${NETWORKING}/serviceentries`],
  VirtualService: ['istio.networking.v1alpha3.VirtualService', `${NETWORKING}/virtualservices`],
  handler: ['istio.policy.v1beta1.Handler', 'istio/policy/v1beta1/handlers'],
};

/** A document as the programs read it. */
function served({ kind, metadata, spec }: Document): Document {
  const { name, namespace } = metadata as { readonly name: string; readonly namespace: string };
  const [message, collection] = SERVED[String(kind)] ?? [];
  return { collection, name: `${namespace}/${name}`, version: JSON.stringify(spec), message, spec };
}

/** A file with documents, which a program follows. */
async function documentsFile(owner: Owner) {
  const path = join(await tempDir(owner), 'documents.json');
  let version = 0;
  const serve = async (...documents: readonly Document[]) => {
    version += 1;
    await writeFile(`${path}.new`, JSON.stringify({ version: String(version), documents: documents.map(served) }));
    // The program must not read a part of it.
    await rename(`${path}.new`, path);
  };
  return { path, serve };
}

/** A source of Istio 1.7 that sends changes only. Without `-policy`, it has the collections of Istio's discovery. */
export async function istioSource(owner: Owner, ...documents: readonly Document[]): Promise<DocumentServer> {
  const { path, serve } = await documentsFile(owner);
  await serve(...documents);
  const address = `127.0.0.1:${await freePort()}`;
  const start = (...more: readonly string[]) =>
    startIstioEnd(owner, 'source', '-incremental', '-listen', address, '-documents', path, ...more);
  const server: DocumentServer = {
    end: await start(),
    address,
    id: `mcp://${address}`,
    serve,
    async restart(...more) {
      server.end = await start(...more);
    },
  };
  return server;
}

/** A server of go-control-plane that offers Delta only; when it is restarted with `-sotw`, State of the World only. */
export async function deltaServer(owner: Owner, ...documents: readonly Document[]): Promise<DocumentServer> {
  const { path, serve } = await documentsFile(owner);
  await serve(...documents);
  const listen = `127.0.0.1:${await freePort()}`;
  const start = (...more: readonly string[]) =>
    startConfigServer(owner, '-listen', listen, '-documents', path, ...more);
  const server: DocumentServer = {
    end: await start(),
    address: `xds://${listen}`,
    id: `xds://${listen}`,
    serve,
    async restart(...more) {
      server.end = await start(...more);
    },
  };
  return server;
}

/** A server that accepts streams and sends the beginning of a message that never ends. Not a real source. */
export async function halfSource(port: number): Promise<{ streams(): number; close(): Promise<void> }> {
  let streams = 0;
  const server = createServer();
  const sessions = new Set<{ destroy(): void }>();
  server.on('session', (session) => sessions.add(session));
  server.on('stream', (stream) => {
    streams += 1;
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
    // 200 bytes are announced, and five follow.
    stream.write(Buffer.from([0, 0, 0, 0, 200, 0x12, 0x05, 0x69, 0x73, 0x74]));
    stream.on('error', () => {});
    setTimeout(() => stream.destroy(), 50);
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return {
    streams: () => streams,
    close: () =>
      new Promise((resolve) => {
        for (const session of sessions) session.destroy();
        server.close(() => resolve());
      }),
  };
}
