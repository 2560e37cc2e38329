/** `request <method> <path> [<body>]`: calls a local HTTP interface and prints the answer. */
import { messageOf } from '../../core/errors.ts';
import { type HttpCall, httpText } from '../../core/network/http-call.ts';
import { type Environment, type FlagTable, type ParsedFlags, usageError } from '../../settings/index.ts';
import { MAX_DEBUG_PAGE_BYTES } from '../debug-credential.ts';
import { unavailable } from '../errors.ts';
import { type Command, command } from '../program.ts';

/** More than any debug page of a large mesh needs. */
const TIMEOUT_MS = 60_000;

/** The HTTP interface of a program. */
interface Interface {
  /** The base URL for a path: `http://localhost:8080`. */
  baseFor(path: string, flags: ParsedFlags): string;
  /** Headers of the call, for example a credential. */
  headersFor?(env: Environment): Promise<Readonly<Record<string, string>>>;
}

/**
 * The command `request` for an interface. A complete URL in place of the path is called as it is, without the
 * credential when it is not an address of the interface. The exit code is 1 when there is no answer, or one with a
 * status of 400 or more.
 */
export function requestCommand(flags: FlagTable, summary: string, { baseFor, headersFor }: Interface): Command {
  return command({
    name: 'request',
    summary,
    flags,
    arguments: ['<method>', '<path>', '[<body>]'],
    async run({ flags: parsed, io }) {
      const [method = '', path = '', body] = parsed.positionals;
      if (!/^[A-Za-z]+$/.test(method)) throw usageError(`not an HTTP method: ${JSON.stringify(method)}`);
      const url = requestUrl(path, (rooted) => baseFor(rooted, parsed));
      const credential = (await headersFor?.(io.env)) ?? {};
      const isOwn = url.origin === new URL(baseFor(url.pathname, parsed)).origin;
      if (!isOwn && Object.keys(credential).length > 0) {
        io.stderr.write(`no credential is sent to ${url.origin}: it is not the address that the flags name\n`);
      }
      const call: HttpCall = {
        to: url,
        method: method.toUpperCase(),
        headers: isOwn ? credential : {},
        ...(body === undefined ? {} : { body }),
        timeoutMs: TIMEOUT_MS,
      };
      const answer = await httpText(call, MAX_DEBUG_PAGE_BYTES).catch((error: unknown) => {
        throw unavailable(`cannot ${call.method} ${url}: ${messageOf(error)}`);
      });
      io.stdout.write(answer.text === '' || answer.text.endsWith('\n') ? answer.text : `${answer.text}\n`);
      if (answer.status >= 400) throw unavailable(`${call.method} ${url} returned HTTP ${answer.status}`);
      return 0;
    },
  });
}

function requestUrl(path: string, baseFor: (path: string) => string): URL {
  try {
    if (/^https?:\/\//.test(path)) return new URL(path);
    const rooted = path.startsWith('/') ? path : `/${path}`;
    // Joined as text, because `//host` resolved against the base would be another host.
    return new URL(baseFor(rooted) + rooted);
  } catch {
    throw usageError(`not a path: ${JSON.stringify(path)}`);
  }
}
