/** `request <method> <path> [<body>]`: calls a local HTTP interface and prints what it answers. */
import { messageOf } from '../../core/errors.ts';
import { type Environment, type FlagTable, type ParsedFlags, usageError } from '../../settings/index.ts';
import { unavailable } from '../errors.ts';
import { type Command, command } from '../program.ts';
import { httpCall } from './http-call.ts';

/** Debug answers of a large mesh take their time; none takes this long. */
const TIMEOUT_MS = 60_000;

/** How a program's interface is reached. */
interface Interface {
  /** The address that answers a path, `http://localhost:8080`. */
  baseFor(path: string, flags: ParsedFlags): string;
  /** What the call carries besides, a credential for example. */
  headersFor?(env: Environment): Promise<Readonly<Record<string, string>>>;
}

/**
 * Calls the interface. A path that is a whole http URL is called as it is, for programs that listen elsewhere. Exit
 * code 1 when there is no answer or its status is 400 or more.
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
      const call = {
        method: method.toUpperCase(),
        url,
        timeoutMs: TIMEOUT_MS,
        headers: (await headersFor?.(io.env)) ?? {},
      };
      const answer = await httpCall(body === undefined ? call : { ...call, body }).catch((error: unknown) => {
        throw unavailable(`cannot ${call.method} ${url}: ${messageOf(error)}`);
      });
      io.stdout.write(answer.body === '' || answer.body.endsWith('\n') ? answer.body : `${answer.body}\n`);
      if (answer.status >= 400) throw unavailable(`${call.method} ${url} was answered with status ${answer.status}`);
      return 0;
    },
  });
}

function requestUrl(path: string, baseFor: (path: string) => string): URL {
  try {
    if (/^https?:\/\//.test(path)) return new URL(path);
    const rooted = path.startsWith('/') ? path : `/${path}`;
    // Joined as text: resolved against the base, a path like //host would lead elsewhere.
    return new URL(baseFor(rooted) + rooted);
  } catch {
    throw usageError(`not a path: ${JSON.stringify(path)}`);
  }
}
