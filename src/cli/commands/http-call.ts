/** One HTTP request on its own connection, so that probes and debug calls leave no open connection behind. */
import type { IncomingMessage } from 'node:http';
import { CtlError } from '../../core/errors.ts';
import { readUpTo } from '../../core/network/body.ts';

/** Debug pages of large meshes have some hundred megabytes; V8 has no strings above 512 MiB. */
const MAX_BODY_BYTES = 512 * 1000 * 1000;

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
  const body = await readUpTo(MAX_BODY_BYTES, response);
  if (body !== undefined) return body.toString('utf8');
  throw new CtlError('resource_exhausted', `the response is longer than ${MAX_BODY_BYTES} bytes`);
}

function reason(error: Error, signal: AbortSignal, timeoutMs: number): string {
  if (signal.aborted) return `no response within ${timeoutMs} ms`;
  // When all addresses of a name fail, their errors are in one error without a message.
  if (error instanceof AggregateError) {
    return error.errors.map((each) => (each instanceof Error ? each.message : String(each))).join(', ');
  }
  return error.message;
}
