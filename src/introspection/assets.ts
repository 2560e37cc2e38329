/**
 * The files of the page application (`pages/`), which `npm run build` bundles. The same document is the shell of each
 * page; its script shows what the path says. The files have no data and need no credential.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { sendText } from './http.ts';

/** Paths of pages. */
export const PAGES: ReadonlySet<string> = new Set([
  '/',
  '/proxies',
  '/proxy',
  '/pushes',
  '/configuration',
  '/events',
  '/why',
  '/argz',
  '/envz',
  '/flagz',
  '/homez',
  '/memz',
  '/metricz',
  '/procz',
  '/scopez',
  '/signalz',
  '/versionz',
]);

const SHELL = 'index.html';

const FILES: Readonly<Record<string, string>> = {
  [SHELL]: 'text/html; charset=utf-8',
  'app.js': 'text/javascript; charset=utf-8',
  'app.css': 'text/css; charset=utf-8',
};

/** Everything comes from this server, and no script is in a document. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

interface Asset {
  readonly plain: Buffer;
  readonly gzip: Buffer;
  readonly etag: string;
}

export class Assets {
  readonly #folder: URL;
  /** Read once. */
  readonly #read = new Map<string, Promise<Asset>>();

  /** @param folder with a slash at its end */
  constructor(folder: URL) {
    this.#folder = folder;
  }

  /** Answers a request for a page or a file of the application. False for any other path. */
  async answer(path: string, request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    const name = PAGES.has(path) ? SHELL : /^\/pages\/(.*)$/.exec(path)?.[1];
    const type = name !== undefined && Object.hasOwn(FILES, name) ? FILES[name] : undefined;
    if (name === undefined || type === undefined) return false;
    const asset = await this.#asset(name);
    if (asset === undefined) {
      sendText(response, 503, 'the pages are not built: npm run build does it');
      return true;
    }
    const { plain, gzip, etag } = asset;
    const headers = {
      'content-type': type,
      'content-security-policy': POLICY,
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-cache',
      vary: 'accept-encoding',
      etag,
    };
    if (request.headers['if-none-match'] === etag) {
      response.writeHead(304, headers).end();
      return true;
    }
    const zipped = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''));
    response.writeHead(200, { ...headers, ...(zipped && { 'content-encoding': 'gzip' }) });
    response.end(zipped ? gzip : plain);
    return true;
  }

  /** Undefined when the file is not there; it is looked for again at the next request. */
  async #asset(name: string): Promise<Asset | undefined> {
    const reading = this.#read.get(name) ?? readAsset(new URL(name, this.#folder));
    this.#read.set(name, reading);
    try {
      return await reading;
    } catch {
      this.#read.delete(name);
      return undefined;
    }
  }
}

async function readAsset(url: URL): Promise<Asset> {
  const plain = await readFile(url);
  const etag = `"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"`;
  return { plain, gzip: gzipSync(plain), etag };
}
