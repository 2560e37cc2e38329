/** The callers of the certificate authority, in a process of their own: agents that renew their certificates. */

import { Client, credentials } from '@grpc/grpc-js';
import { encode, mesh } from '../../src/protobuf/index.ts';
import { answerCommands } from '../client/asked.ts';
import { monotonicMs } from '../world/clock.ts';
import type { SignCommand, SignResult } from './messages.ts';

const METHOD = '/mesh.v1.auth.MeshCertificateService/CreateCertificate';
const DEADLINE_MS = 60_000;

const asIs = (bytes: Buffer): Buffer => bytes;

function create(client: Client, request: Buffer): Promise<void> {
  const options = { deadline: Date.now() + DEADLINE_MS };
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(METHOD, asIs, asIs, request, options, (error, answer) =>
      answer === undefined ? reject(error ?? new Error('no answer')) : resolve(),
    );
  });
}

async function run(command: SignCommand): Promise<SignResult> {
  const { port, root, chain, key, csr, certificates, inFlight, connections } = command;
  const secure = credentials.createSsl(Buffer.from(root), Buffer.from(key), Buffer.from(chain));
  const clients = Array.from(
    { length: connections },
    () => new Client(`localhost:${port}`, secure, { 'grpc.use_local_subchannel_pool': 1 }),
  );
  const request = Buffer.from(encode(mesh.v1.auth.MeshCertificateRequest, { csr, validityDuration: 0 }));
  // Connections are made before the measurement begins.
  await Promise.all(clients.map((client) => create(client, request)));
  let left = certificates;
  const caller = async (index: number): Promise<void> => {
    const client = clients[index % clients.length];
    while (client !== undefined && left-- > 0) await create(client, request);
  };
  const started = monotonicMs();
  await Promise.all(Array.from({ length: inFlight }, (_, index) => caller(index)));
  const seconds = (monotonicMs() - started) / 1000;
  for (const client of clients) client.close();
  return { seconds };
}

answerCommands(run);
