/** One HTTP request on its own connection, so that probes and debug calls leave no open connection behind. */
import type { IncomingMessage } from 'node:http';
import { CtlError } from '../../core/errors.ts';

interface HttpCall {
  readonly method: string;
  readonly url: URL;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Limit for the whole call, milliseconds. */
  readonly timeoutMs: number;
}

interface HttpAnswer {
  readonly status: number;
  readonly body: string;
}

/** Rejects with an `Error` of one line when there is no answer. */
export async function httpCall(call: HttpCall): Promise<HttpAnswer> {
  // Loaded here, because most commands call nothing. A dynamic import would load all of node:http in a bundle.
  const { request } = process.getBuiltinModule(call.url.protocol === 'https:' ? 'node:https' : 'node:http');
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(Math.ceil(call.timeoutMs));
    const refuse = (error: Error) =>
      reject(new CtlError('unavailable', reason(error, signal, call.timeoutMs), {}, error));
    const outgoing = request(
      call.url,
      { method: call.method, headers: call.headers ?? {}, agent: false, signal },
      (response) => {
        readText(response).then((body) => resolve({ status: response.statusCode ?? 0, body }), refuse);
      },
    );
    outgoing.on('error', refuse);
    outgoing.end(call.body);
  });
}

async function readText(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

function reason(error: Error, signal: AbortSignal, timeoutMs: number): string {
  if (signal.aborted) return `no answer within ${timeoutMs} ms`;
  // When all addresses of a name fail, their errors are in one error without a message.
  if (error instanceof AggregateError) {
    return error.errors.map((each) => (each instanceof Error ? each.message : String(each))).join(', ');
  }
  return error.message;
}
