/** Collects the parts of a bug report one after the other, within limits. What is missing is named with its reason. */
import { messageOf } from '../../core/errors.ts';
import { readUpTo } from '../../core/network/body.ts';
import { httpCall } from '../../core/network/http-call.ts';
import { isLoopbackName } from '../../core/network/loopback.ts';
import { unavailable } from '../errors.ts';
import { printable } from '../output/index.ts';
import type { Archive } from './archive.ts';
import type { Interface, Part } from './parts.ts';

export interface ReportLimits {
  /** The largest response. */
  readonly partBytes: number;
  /** All files, before compression. */
  readonly totalBytes: number;
  /** For one response, and for all, ms. */
  readonly partMs: number;
  readonly totalMs: number;
}

const MIB = 2 ** 20;

export const REPORT_LIMITS: ReportLimits = {
  partBytes: 64 * MIB,
  totalBytes: 256 * MIB,
  partMs: 30_000,
  totalMs: 180_000,
};

export interface Collected {
  readonly file: string;
  readonly path: string;
  readonly bytes: number;
  /** Why the archive does not have it. */
  readonly missing?: string;
}

export interface Service {
  readonly addresses: Readonly<Record<Interface, URL>>;
  /** The headers with the token of the debug interface; none without a token. */
  readonly credential: Readonly<Record<string, string>>;
}

/** The longest text of a response that a reason quotes. */
const MAX_QUOTED = 200;

export class Collector {
  readonly collected: Collected[] = [];
  readonly #service: Service;
  readonly #archive: Archive;
  readonly #limits: ReportLimits;
  readonly #now: () => number;
  readonly #deadline: number;
  #bytes = 0;

  /** @param now monotonic ms */
  constructor(service: Service, archive: Archive, limits: ReportLimits, now: () => number) {
    this.#service = service;
    this.#archive = archive;
    this.#limits = limits;
    this.#now = now;
    this.#deadline = now() + limits.totalMs;
  }

  /** Adds a part to the archive; undefined when it is missing. */
  async add(part: Part): Promise<Buffer | undefined> {
    const { file, path } = part;
    try {
      const response = await this.#fetch(part);
      const content = Buffer.from(part.content(response));
      if (this.#bytes + content.length > this.#limits.totalBytes) throw unavailable('the archive is full');
      this.#bytes += content.length;
      await this.#archive.add(file, content);
      this.collected.push({ file, path, bytes: content.length });
      return response;
    } catch (error) {
      this.collected.push({ file, path, bytes: 0, missing: messageOf(error) });
      return undefined;
    }
  }

  async #fetch({ from, path, takesMs = 0 }: Part): Promise<Buffer> {
    const { partBytes, partMs } = this.#limits;
    const left = this.#deadline - this.#now();
    if (left <= takesMs) throw unavailable('no time is left');
    const { addresses, credential } = this.#service;
    const to = new URL(path, addresses[from]);
    const headers = from === 'monitoring' ? {} : protectedCredential(to, credential);
    const call = { to, headers, timeoutMs: Math.min(left, partMs + takesMs) };
    return httpCall(call, async (response) => {
      const body = await readUpTo(partBytes, response);
      if (body === undefined) throw unavailable(`longer than ${partBytes} bytes`);
      if (response.statusCode !== 200 && !path.startsWith('/ready')) {
        const said = printable(body.toString('utf8').slice(0, MAX_QUOTED), ' ').trim();
        throw unavailable(`HTTP ${response.statusCode}: ${said}`);
      }
      return body;
    });
  }
}

/** The credential for a server; throws CtlError where others could read it on the way. */
function protectedCredential(to: URL, credential: Service['credential']): Service['credential'] {
  const isProtected = to.protocol === 'https:' || isLoopbackName(to.hostname.replace(/^\[(.*)\]$/, '$1'));
  if (isProtected || Object.keys(credential).length === 0) return credential;
  throw unavailable(`the token of CTL_DEBUG_TOKEN_FILE is not sent to ${to.host} without TLS`);
}
