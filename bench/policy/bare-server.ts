/**
 * The least that an ext_authz server written with grpc-js does, in a process of its own: it decodes the request, looks
 * at a path and a header, and encodes its decision. It has no rules, limits, callers or configuration.
 */
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from '@grpc/grpc-js';
import { encode, envoy } from '../../src/protobuf/index.ts';
import type { BareCommand, BareResult } from './messages.ts';
import { SERVICE } from './requests.ts';

type Request = envoy.service.auth.v3.CheckRequest;

const { CheckRequest, CheckResponse } = envoy.service.auth.v3;
const asIs = (bytes: Uint8Array): Buffer => Buffer.from(bytes);
const ALLOWED = encode(CheckResponse, { status: { code: 0 }, okResponse: {} });
const DENIED = encode(CheckResponse, { status: { code: 7 }, deniedResponse: {} });

function decide({ attributes }: Request): Uint8Array {
  const http = attributes?.request?.http;
  const isAllowed = http?.path.startsWith('/admin') === false && http.headers['x-user'] !== 'stranger';
  return isAllowed ? ALLOWED : DENIED;
}

function credentialsOf({ tls }: BareCommand): ServerCredentials {
  if (tls === undefined) return ServerCredentials.createInsecure();
  const pair = { private_key: Buffer.from(tls.key), cert_chain: Buffer.from(tls.chain) };
  return ServerCredentials.createSsl(Buffer.from(tls.root), [pair], true);
}

async function serve(command: BareCommand): Promise<BareResult> {
  const server = new Server();
  const check = {
    path: SERVICE,
    requestStream: false,
    responseStream: false,
    requestSerialize: asIs,
    requestDeserialize: (bytes: Buffer) => CheckRequest.decode(bytes),
    responseSerialize: asIs,
    responseDeserialize: asIs,
  };
  server.addService(
    { check },
    {
      check: (call: ServerUnaryCall<Request, Uint8Array>, done: sendUnaryData<Uint8Array>) =>
        done(null, decide(call.request)),
    },
  );
  const credentials = credentialsOf(command);
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', credentials, (error, bound) => (error === null ? resolve(bound) : reject(error))),
  );
  return { port, pid: process.pid };
}

process.on('message', (command: BareCommand) => {
  serve(command).then(
    (result) => process.send?.(result),
    (error: unknown) => {
      console.error(error);
      process.exit(1);
    },
  );
});
process.on('disconnect', () => process.exit(0));
