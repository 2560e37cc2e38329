/** The ACL token and the certificate authorities, from files that are read again when they may have changed. */
import { readFile } from 'node:fs/promises';
import type { Clock } from '../../core/clock.ts';
import { CtlError, errnoOf, messageOf } from '../../core/errors.ts';

/** How long a file's content is used without reading it again, ms. */
const FRESH_MS = 1000;
/** A token is a UUID, and some login tokens are longer. */
const MAX_TOKEN = 4096;

export interface Credentials {
  /** Undefined: none is sent. */
  readonly token: string | undefined;
  /** PEM; undefined: the authorities of the system. */
  readonly ca: string | undefined;
}

export class FileCredentials {
  readonly #tokenFile: string;
  readonly #caFile: string;
  readonly #now: Clock['now'];
  #read: { readonly at: number; readonly credentials: Promise<Credentials> } | undefined;

  /** An empty path means that there is none. */
  constructor(files: { readonly tokenFile: string; readonly caFile: string }, now: Clock['now']) {
    this.#tokenFile = files.tokenFile;
    this.#caFile = files.caFile;
    this.#now = now;
  }

  /** Rejects with CtlError that names the file. */
  current(): Promise<Credentials> {
    const now = this.#now();
    if (this.#read === undefined || now - this.#read.at >= FRESH_MS) {
      this.#read = { at: now, credentials: this.#load() };
    }
    return this.#read.credentials;
  }

  async #load(): Promise<Credentials> {
    const [token, ca] = await Promise.all([contentOf(this.#tokenFile), contentOf(this.#caFile)]);
    return {
      token: token === undefined ? undefined : tokenIn(token, this.#tokenFile),
      ca: ca === undefined ? undefined : authoritiesIn(ca, this.#caFile),
    };
  }
}

async function contentOf(file: string): Promise<string | undefined> {
  if (file === '') return undefined;
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    throw unusable(file, `expected a readable file: ${errnoOf(error) ?? messageOf(error)}`);
  }
}

function tokenIn(content: string, file: string): string {
  const token = content.trim();
  if (token.length > MAX_TOKEN || !/^[\x21-\x7e]+$/.test(token)) {
    throw unusable(file, 'expected a token of printable characters');
  }
  return token;
}

/** Without certificates, Node.js would trust the authorities of the system. */
function authoritiesIn(content: string, file: string): string {
  if (!content.includes('-----BEGIN CERTIFICATE-----')) throw unusable(file, 'expected certificates in PEM');
  return content;
}

function unusable(file: string, message: string): CtlError {
  return new CtlError('failed_precondition', message, { file });
}
