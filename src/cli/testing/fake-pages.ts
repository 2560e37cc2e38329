/** A server with debug pages that a test makes up, and commands of ctl-discovery that ask it. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { Environment } from '../../settings/index.ts';
import { discoveryProgram } from '../discovery.ts';
import { runProgram } from '../program.ts';

/** By name: the page for the parameters of a request. A string is sent as it is; undefined is HTTP 404. */
type Pages = Readonly<Record<string, (query: Readonly<Record<string, string>>) => unknown>>;

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export class FakePages {
  /** `127.0.0.1:port`, after {@link start}. */
  address = '';
  /** Paths with queries, and headers, of all requests. */
  readonly asked: { readonly url: string; readonly headers: IncomingHttpHeaders }[] = [];
  readonly #server;

  constructor(pages: Pages) {
    this.#server = createServer(({ url = '', headers }, response) => {
      this.asked.push({ url, headers });
      const { pathname, searchParams } = new URL(url, 'http://localhost');
      const page = pages[pathname.replace('/debug/', '')]?.(Object.fromEntries(searchParams));
      if (page === undefined) response.writeHead(404).end(`no page ${pathname}\n`);
      else response.end(typeof page === 'string' ? page : JSON.stringify(page));
    });
  }

  async start(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    const bound = this.#server.address();
    this.address = `127.0.0.1:${typeof bound === 'object' ? bound?.port : ''}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Runs `ctl-discovery <name> --httpAddr <address> <args>`. */
  run(name: string, ...args: readonly string[]): Promise<Ran> {
    const named = args.includes('--httpAddr') ? args : ['--httpAddr', this.address, ...args];
    return runDiscoveryCommand([name, ...named]);
  }
}

export async function runDiscoveryCommand(args: readonly string[], env: Environment = {}): Promise<Ran> {
  const out: Record<'stdout' | 'stderr', string> = { stdout: '', stderr: '' };
  const to = (name: keyof typeof out) => ({ write: (text: string) => (out[name] += text) });
  const code = await runProgram(discoveryProgram(), args, { stdout: to('stdout'), stderr: to('stderr'), env });
  return { code, ...out };
}
