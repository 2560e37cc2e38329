/**
 * Certificate, key and CA of the secured gRPC address, from files (--tlsCertFile, --tlsKeyFile, --caCertFile). The
 * files are read periodically, because they may be renewed by links, renames or writes in place. A certificate without
 * its key, as between two writes, leaves the last good pair in force.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import { isDeepStrictEqual } from 'node:util';
import { systemClock } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import { Refresh } from '../../core/scheduling/refresh.ts';
import type { DiscoverySettings } from '../../settings/index.ts';

/** How often the files are read, milliseconds. */
const INTERVAL_MS = 10_000;

type TlsSettings = Pick<DiscoverySettings, 'tlsCertFile' | 'tlsKeyFile' | 'caCertFile'>;

/** The content of the files, PEM. */
export interface TlsMaterial {
  readonly cert: string;
  readonly key: string;
  /** The CA of client certificates. */
  readonly ca: string | undefined;
}

async function readPem(flag: string, file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new CtlError('invalid_argument', `${file} cannot be read (${code ?? String(error)})`, { field: flag }, error);
  }
}

function parsed<T>(flag: string, file: string, what: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw new CtlError('invalid_argument', `${file} is not ${what} in PEM form`, { field: flag }, error);
  }
}

function check({ cert, key, ca }: TlsMaterial, files: TlsSettings): void {
  const certificate = parsed('--tlsCertFile', files.tlsCertFile, 'a certificate', () => new X509Certificate(cert));
  const privateKey = parsed('--tlsKeyFile', files.tlsKeyFile, 'a private key', () => createPrivateKey(key));
  if (!certificate.checkPrivateKey(privateKey)) {
    const message = `${files.tlsKeyFile} is not the key of the certificate in ${files.tlsCertFile}`;
    throw new CtlError('invalid_argument', message, { field: '--tlsKeyFile' });
  }
  if (ca !== undefined) {
    parsed('--caCertFile', files.caCertFile, 'a certificate', () =>
      createSecureContext({ ca: new X509Certificate(ca).toString() }),
    );
  }
}

async function readMaterial(files: TlsSettings): Promise<TlsMaterial> {
  const material = {
    cert: await readPem('--tlsCertFile', files.tlsCertFile),
    key: await readPem('--tlsKeyFile', files.tlsKeyFile),
    ca: files.caCertFile === '' ? undefined : await readPem('--caCertFile', files.caCertFile),
  };
  check(material, files);
  return material;
}

export interface TlsFiles {
  readonly material: TlsMaterial;
  /** Follows the files. `onProblem` is called once for each new problem. Returns a function that ends it. */
  follow(onMaterial: (material: TlsMaterial) => void, onProblem: (error: CtlError) => void): () => void;
}

/**
 * Resolves with undefined when no flag names a file. Rejects with CtlError invalid_argument that names the flag of an
 * unusable file.
 */
export async function openTlsFiles(files: TlsSettings): Promise<TlsFiles | undefined> {
  if (files.tlsCertFile === '' && files.tlsKeyFile === '' && files.caCertFile === '') return undefined;
  for (const [flag, file] of [
    ['--tlsCertFile', files.tlsCertFile],
    ['--tlsKeyFile', files.tlsKeyFile],
  ] as const) {
    if (file === '')
      throw new CtlError('invalid_argument', 'required: --tlsCertFile and --tlsKeyFile must be set together', {
        field: flag,
      });
  }
  let current = await readMaterial(files);
  return {
    material: current,
    follow(onMaterial, onProblem) {
      const refresh = new Refresh<TlsMaterial>({
        load: async () => ({ value: await readMaterial(files), refreshMs: INTERVAL_MS }),
        onValue(next) {
          if (isDeepStrictEqual(current, next)) return;
          current = next;
          onMaterial(next);
        },
        onProblem,
        clock: systemClock,
        retryMs: () => INTERVAL_MS,
      });
      refresh.startWith({ value: current, refreshMs: INTERVAL_MS });
      return () => void refresh.close();
    },
  };
}
