/** Test support: unary calls with credentials, by gRPC's own client. */
import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { TRUST_DOMAIN_METADATA } from '../../core/identity.ts';

export interface CallCredentials {
  /** PEM; undefined: plain text. */
  readonly roots: string | undefined;
  readonly client: { readonly key: Buffer; readonly chain: string } | undefined;
  readonly token: string | undefined;
  /** The trust domain that the workload's agent is configured with. */
  readonly trustDomain: string | undefined;
}

/** Calls a method on localhost. Rejects with the server's status, and after ten seconds. */
export async function unaryCall(
  port: number,
  path: string,
  request: Uint8Array,
  { roots, client, token, trustDomain }: CallCredentials,
): Promise<Buffer> {
  const channel =
    roots === undefined
      ? credentials.createInsecure()
      : credentials.createSsl(Buffer.from(roots), client?.key ?? null, client ? Buffer.from(client.chain) : null);
  const caller = new Client(`localhost:${port}`, channel, { 'grpc.use_local_subchannel_pool': 1 });
  const metadata = new Metadata();
  if (token !== undefined) metadata.set('authorization', `Bearer ${token}`);
  if (trustDomain !== undefined) metadata.set(TRUST_DOMAIN_METADATA, trustDomain);
  const asIs = (bytes: Buffer): Buffer => bytes;
  try {
    return await new Promise((resolve, reject) => {
      const deadline = Date.now() + 60_000;
      caller.makeUnaryRequest(path, asIs, asIs, Buffer.from(request), metadata, { deadline }, (error, value) =>
        value === undefined ? reject(error ?? new Error('no answer')) : resolve(value),
      );
    });
  } finally {
    caller.close();
  }
}
