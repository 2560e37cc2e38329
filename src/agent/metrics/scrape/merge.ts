/**
 * Serves the metrics of Envoy, the application and the agent in one scrape. The parts are streamed one after the other,
 * so that an application with a hundred megabytes of metrics takes no memory in the agent. The scrape is in
 * OpenMetrics, with exemplars, if the scraper accepts it and the application responds in it; otherwise, it is in the
 * text format.
 */
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { CtlError, messageOf } from '../../../core/errors.ts';
import { createFailureLog, type FailureLog, type Log } from '../../../core/log.ts';
import { type HttpCall, httpCall } from '../../../core/network/http-call.ts';
import { goneSignal } from '../../../http/index.ts';
import type { AppMetrics } from '../app-metrics.ts';
import type { AgentMetrics } from '../metrics.ts';
import { ApplicationMetrics } from './application.ts';
import { decoded, readLines, textOf } from './body.ts';
import { acceptedOpenMetrics, acceptHeader, contentTypeOf, type Format, parseFormat } from './formats.ts';
import { ProxyFamilies } from './proxy-families.ts';

/** Scrapers time out after 10 s by default; this is the time for all parts together. */
const TIMEOUT_MS = 9_000;
/**
 * How long to wait for the application, whose response decides the format. If it takes longer, the scrape is in the
 * text format.
 */
const FORMAT_WAIT_MS = 4_000;

export interface MergeDeps {
  /** Undefined when Envoy is not running. */
  readonly adminPort: number | undefined;
  /** Undefined when the application has no metrics. */
  readonly app: AppMetrics | undefined;
  /** The application's address. */
  readonly appHost: string;
  readonly metrics: AgentMetrics;
  /** The logs of parts that cannot be fetched or read. */
  readonly failures: Readonly<Record<Part, FailureLog>>;
}

type Part = 'envoy' | 'application';

/** Each reason is one line of the log, however often the metrics are scraped. */
export function scrapeFailures(log: Log): MergeDeps['failures'] {
  const of = (whose: string) =>
    createFailureLog(log, `metrics of ${whose} are missing in scrapes`, `scrapes have all metrics of ${whose} again`);
  return { envoy: of('Envoy'), application: of('the application') };
}

/** @param accept of the scraper's request. Parts that cannot be fetched or read are left out, counted and logged. */
export async function serveMerged(
  accept: string | undefined,
  response: ServerResponse,
  deps: MergeDeps,
): Promise<void> {
  deps.metrics.add('scrapes_total');
  await new Scrape(acceptedOpenMetrics(accept), response, deps).serve();
}

class Scrape {
  readonly #openMetrics: readonly string[];
  readonly #response: ServerResponse;
  readonly #deps: MergeDeps;
  readonly #gone: AbortSignal;
  readonly #deadline = performance.now() + TIMEOUT_MS;
  readonly #names: ProxyFamilies;

  constructor(openMetrics: readonly string[], response: ServerResponse, deps: MergeDeps) {
    this.#openMetrics = openMetrics;
    this.#response = response;
    this.#deps = deps;
    this.#names = new ProxyFamilies(deps.metrics.families);
    this.#gone = goneSignal(response);
  }

  async serve(): Promise<void> {
    const { adminPort, app, metrics } = this.#deps;
    const application = app === undefined ? undefined : this.#ask(app);
    const format = await this.#formatFor(application);
    this.#response.writeHead(200, { 'content-type': contentTypeOf(format, this.#openMetrics) });
    if (adminPort !== undefined)
      await this.#part('envoy', async () => {
        const answer = await this.#call({
          to: { port: adminPort, path: '/stats/prometheus' },
          headers: { accept: acceptHeader([]) },
        });
        await this.#passEnvoy(readableBody(answer), format);
      });
    if (application !== undefined)
      await this.#part('application', async () => this.#passApplication(await application, format));
    if (this.#gone.aborted) return;
    const own = metrics.text(format, this.#names.replaced);
    this.#response.end(format === 'openmetrics' ? `${own}# EOF\n` : own);
  }

  /** The response of the application; its body is read after Envoy's has been passed on. */
  #ask({ port, path }: AppMetrics): Promise<IncomingMessage> {
    const headers = { accept: acceptHeader(this.#openMetrics), 'accept-encoding': 'identity' };
    const answer = this.#call({ to: { host: this.#deps.appHost, port, path }, headers });
    // The failure is handled later.
    answer.catch(() => undefined);
    return answer;
  }

  #call(options: Pick<HttpCall, 'to' | 'headers'>): Promise<IncomingMessage> {
    const timeoutMs = Math.max(1, Math.round(this.#deadline - performance.now()));
    return httpCall({ ...options, timeoutMs, signal: this.#gone });
  }

  async #formatFor(application: Promise<IncomingMessage> | undefined): Promise<Format> {
    if (application === undefined || this.#openMetrics.length === 0) return 'text';
    const decided = new AbortController();
    const late = delay(FORMAT_WAIT_MS, undefined, { signal: decided.signal });
    const answer = await Promise.race([application, late]).catch(() => undefined);
    decided.abort();
    const isRead = answer !== undefined && answer.statusCode === 200;
    return isRead && parseFormat(answer.headers['content-type']) === 'openmetrics' ? 'openmetrics' : 'text';
  }

  async #part(part: Part, pass: () => Promise<void>): Promise<void> {
    const { metrics, failures } = this.#deps;
    try {
      await pass();
      failures[part].succeeded();
    } catch (error) {
      if (this.#gone.aborted) return;
      metrics.add('scrape_failures_total', 1, { type: part });
      failures[part].failed(messageOf(error));
    }
  }

  async #passEnvoy(body: Readable, format: Format): Promise<void> {
    let last = '\n';
    try {
      for await (const block of readLines(body)) {
        const text = this.#names.passOn(block.toString('latin1'), format);
        last = text.at(-1) ?? last;
        await this.#write(Buffer.from(text, 'latin1'));
      }
    } finally {
      // An incomplete response ends in the middle of a line.
      if (last !== '\n') await this.#write('\n');
    }
  }

  async #passApplication(answer: IncomingMessage, format: Format): Promise<void> {
    const from = parseFormat(answer.headers['content-type']);
    if (from === undefined) {
      answer.destroy();
      throw new CtlError(
        'invalid_argument',
        `returned the content type ${JSON.stringify(answer.headers['content-type']?.slice(0, 80))}`,
      );
    }
    const application = new ApplicationMetrics({ from, to: format, isTaken: (name) => this.#names.isTaken(name) });
    for await (const block of readLines(readableBody(answer))) {
      await this.#write(application.convert(textOf(block)));
      // Leaving the loop destroys the response.
      if (application.ended) break;
    }
    await this.#write(application.end());
    if (application.problem !== undefined) throw new CtlError('invalid_argument', application.problem);
  }

  async #write(text: string | Buffer): Promise<void> {
    if (this.#gone.aborted || text.length === 0) return;
    if (!this.#response.write(text)) await once(this.#response, 'drain', { signal: this.#gone });
  }
}

/** Throws CtlError for a status other than 200. */
function readableBody(answer: IncomingMessage): Readable {
  if (answer.statusCode === 200) return decoded(answer);
  answer.destroy();
  throw new CtlError('unavailable', `returned HTTP ${answer.statusCode}`);
}
