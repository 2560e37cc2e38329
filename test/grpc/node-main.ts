/**
 * The client of main.go on Node.js, with the same interface: `POST /call`. Arguments: the address `host:port` of the
 * HTTP server.
 */
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { register, XdsChannelCredentials } from '@grpc/grpc-js-xds';
import type { CallRequest, CallResult } from './application.ts';

register();

const clients = new Map<string, Client>();

function clientOf(target: string): Client {
  let client = clients.get(target);
  if (client === undefined) {
    client = new Client(target, new XdsChannelCredentials(credentials.createInsecure()));
    clients.set(target, client);
  }
  return client;
}

/** One call with an empty message; resolves with the text of the answer, a `google.protobuf.StringValue`. */
function callOnce({ target, method, headers, timeoutMs }: CallRequest): Promise<string> {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
  return new Promise((resolve, reject) => {
    clientOf(target).makeUnaryRequest<Buffer, Buffer>(
      method,
      (message) => message,
      (bytes) => bytes,
      Buffer.alloc(0),
      metadata,
      { deadline: Date.now() + timeoutMs },
      (error, answer) => (error ? reject(error) : resolve(answer?.subarray(2).toString() ?? '')),
    );
  });
}

async function call(request: CallRequest): Promise<CallResult> {
  const answers: Record<string, number> = {};
  const errors: Record<string, number> = {};
  let message = '';
  for (let count = 0; count < request.calls; count++) {
    try {
      const name = await callOnce(request);
      answers[name] = (answers[name] ?? 0) + 1;
    } catch (error) {
      const { code, details } = error as ServiceError;
      const name = NAMES[status[code] ?? ''] ?? String(status[code]);
      errors[name] = (errors[name] ?? 0) + 1;
      message = details;
    }
  }
  return { answers, errors, message };
}

/** Codes as Go names them, of those that tests compare. */
const NAMES: Readonly<Record<string, string>> = {
  UNKNOWN: 'Unknown',
  UNAVAILABLE: 'Unavailable',
  DEADLINE_EXCEEDED: 'DeadlineExceeded',
  PERMISSION_DENIED: 'PermissionDenied',
};

const [host = '', port = ''] = (process.argv[2] ?? '').split(':');
createServer((incoming, response) => {
  text(incoming)
    .then((body) => call(JSON.parse(body) as CallRequest))
    .then(
      (result) => response.end(JSON.stringify(result)),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
}).listen(Number(port), host);
