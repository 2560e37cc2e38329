/**
 * Serves the metrics of Envoy, the application and the agent in one scrape. The parts are streamed one after the other,
 * so that an application with a hundred megabytes of metrics needs no memory of the agent.
 */
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { CtlError, messageOf } from '../../core/errors.ts';
import type { Logger } from '../../logging/index.ts';
import { type CallOptions, call } from '../http-client.ts';
import type { AppMetrics } from './app-metrics.ts';
import type { AgentMetrics } from './metrics.ts';

/** Scrapers time out after 10 s by default; this is the time for all parts together. */
const TIMEOUT_MS = 9_000;
/** A part that does not end must not block a scrape forever. */
const MAX_PART_BYTES = 256 * 1024 * 1024;
const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';
/** The end of an OpenMetrics text; in the middle of a scrape it would end it. */
const END_MARK = '# EOF';

export interface MergeDeps {
  readonly adminPort: number;
  /** Undefined: the application has none. */
  readonly app: AppMetrics | undefined;
  /** The application's address. */
  readonly appHost: string;
  readonly metrics: AgentMetrics;
  readonly log: Logger;
}

/** Answers a scrape. Parts that cannot be fetched are left out and counted. */
export async function serveMerged(response: ServerResponse, deps: MergeDeps): Promise<void> {
  const { adminPort, app, appHost, metrics, log } = deps;
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  metrics.add('scrapes_total');
  response.writeHead(200, { 'content-type': CONTENT_TYPE });
  const started = performance.now();
  const part = async (type: 'envoy' | 'application', from: Omit<CallOptions, 'timeoutMs'>): Promise<void> => {
    try {
      const timeoutMs = Math.max(1, Math.round(TIMEOUT_MS - (performance.now() - started)));
      await passOn(await call({ ...from, timeoutMs, signal: gone.signal }), response, gone.signal);
    } catch (error) {
      if (gone.signal.aborted) return;
      metrics.add('scrape_failures_total', 1, { type });
      log.debug('metrics could not be fetched', { type, reason: messageOf(error) });
    }
  };
  await part('envoy', { port: adminPort, path: '/stats/prometheus' });
  const headers = { accept: 'text/plain;version=0.0.4' };
  if (app !== undefined) await part('application', { host: appHost, port: app.port, path: app.path, headers });
  if (!gone.signal.aborted) response.end(metrics.text());
}

/** Streams a body, up to its last complete line. Rejects for a status other than 200. */
async function passOn(incoming: IncomingMessage, outgoing: ServerResponse, gone: AbortSignal): Promise<void> {
  if (incoming.statusCode !== 200) {
    incoming.destroy();
    throw new CtlError('unavailable', `answered with status ${incoming.statusCode}`);
  }
  // The last bytes are held back until they are known to be the end.
  let held = '';
  let size = 0;
  try {
    for await (const chunk of incoming as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > MAX_PART_BYTES) throw new CtlError('resource_exhausted', `more than ${MAX_PART_BYTES} bytes`);
      // Bytes as characters: chunks may split UTF-8 sequences, which must not be changed.
      const text = held + chunk.toString('latin1');
      const keep = text.length - END_MARK.length - 2;
      held = text.slice(Math.max(0, keep));
      if (keep > 0 && !outgoing.write(text.slice(0, keep), 'latin1')) await once(outgoing, 'drain', { signal: gone });
    }
  } finally {
    const last = held.replace(/# EOF\r?\n?$/, '');
    // An incomplete line would corrupt the next part.
    if (!gone.aborted && size > 0) outgoing.write(last === '' || last.endsWith('\n') ? last : `${last}\n`, 'latin1');
  }
}
