/**
 * One scrape of everything: Envoy's metrics, the application's and the agent's, one after the other, passed on as they
 * come. Nothing is kept, so that an application with a hundred megabytes of metrics costs the agent no memory.
 */
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { CtlError, messageOf } from '../../core/errors.ts';
import type { Logger } from '../../logging/index.ts';
import { type CallOptions, call } from '../http-client.ts';
import type { AppMetrics } from './app-metrics.ts';
import type { AgentMetrics } from './metrics.ts';

/** Scrapers give up after 10 s by default; what one part has taken is gone for the others. */
const TIMEOUT_MS = 9_000;
/** A part that does not end must not hold a scrape for ever. */
const MAX_PART_BYTES = 256 * 1024 * 1024;
const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';
/** By which OpenMetrics ends; in the middle of a scrape it would end it. */
const END_MARK = '# EOF';

export interface MergeDeps {
  readonly adminPort: number;
  /** Undefined: the application has none. */
  readonly app: AppMetrics | undefined;
  /** Where the application is. */
  readonly appHost: string;
  readonly metrics: AgentMetrics;
  readonly log: Logger;
}

/** Answers a scrape. Parts that cannot be had are left out and counted. */
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
      log.debug('metrics could not be had', { type, reason: messageOf(error) });
    }
  };
  await part('envoy', { port: adminPort, path: '/stats/prometheus' });
  const headers = { accept: 'text/plain;version=0.0.4' };
  if (app !== undefined) await part('application', { host: appHost, port: app.port, path: app.path, headers });
  if (!gone.signal.aborted) response.end(metrics.text());
}

/** Writes a body as it comes, ending with a whole line. Rejects for a status other than 200. */
async function passOn(incoming: IncomingMessage, outgoing: ServerResponse, gone: AbortSignal): Promise<void> {
  if (incoming.statusCode !== 200) {
    incoming.destroy();
    throw new CtlError('unavailable', `answered with status ${incoming.statusCode}`);
  }
  // The end of a body is held back until it is known to be the end.
  let held = '';
  let size = 0;
  try {
    for await (const chunk of incoming as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > MAX_PART_BYTES) throw new CtlError('resource_exhausted', `more than ${MAX_PART_BYTES} bytes`);
      // Bytes as characters: UTF-8 must come through whole, however chunks cut it.
      const text = held + chunk.toString('latin1');
      const keep = text.length - END_MARK.length - 2;
      held = text.slice(Math.max(0, keep));
      if (keep > 0 && !outgoing.write(text.slice(0, keep), 'latin1')) await once(outgoing, 'drain', { signal: gone });
    }
  } finally {
    const last = held.replace(/# EOF\r?\n?$/, '');
    // What broke off in the middle of a line would spoil the next one.
    if (!gone.aborted && size > 0) outgoing.write(last === '' || last.endsWith('\n') ? last : `${last}\n`, 'latin1');
  }
}
