/** Requests to token endpoints and metadata servers. */
import { CtlError, toCtlError } from '../../core/errors.ts';
import { type HttpAnswer, type HttpCall, httpText, shownUrl } from '../../core/network/http-call.ts';

/** Responses with tokens are a few kilobytes long. */
const MAX_ANSWER_BYTES = 64 * 1024;

/** The response, whatever its status. Rejects with CtlError unavailable or deadline_exceeded, which names the URL. */
export async function callService(call: HttpCall & { readonly to: URL }): Promise<HttpAnswer> {
  try {
    return await httpText(call, MAX_ANSWER_BYTES);
  } catch (error) {
    const { code, message } = toCtlError(error);
    throw new CtlError(code, `${shownUrl(call.to)}: ${message}`, {}, error);
  }
}
