/**
 * TLS towards a configuration source, by the `tlsSettings` of the mesh configuration: with the certificate of this
 * control plane, or with files, which are read again as long as the source is open.
 */
import { readFile } from 'node:fs/promises';
import { createSecureContext, type PeerCertificate } from 'node:tls';
import { isDeepStrictEqual } from 'node:util';
import type { Clock, Timer } from '../../core/clock.ts';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import type { StreamTls } from '../../grpc/index.ts';
import type { ClientTlsSettings } from '../../resources/index.ts';
import type { FollowedTls } from './config-source.ts';

/** The certificate of this control plane, and the roots of the mesh. */
export interface MeshCertificate {
  /** PEM, leaf first. */
  pair(): { readonly chain: string; readonly key: string };
  /** PEM; undefined: not known. */
  caBundle(): string | undefined;
  /** Calls `listener` after each change of either. Returns a function that stops this. */
  onChange(listener: () => void): () => void;
}

export interface PeerTlsOptions {
  readonly settings: ClientTlsSettings;
  readonly host: string;
  /** Undefined if this control plane has none. */
  readonly certificate: Promise<MeshCertificate | undefined>;
  readonly clock: Clock;
}

/** How often files are read. */
const INTERVAL_MS = 10_000;

/** Undefined for plain text. */
export function createPeerTls(options: PeerTlsOptions): FollowedTls | undefined {
  const { mode = 'DISABLE' } = options.settings;
  if (mode === 'DISABLE') return undefined;
  return mode === 'MESH_MUTUAL' ? ofMesh(options) : ofFiles(options);
}

function ofMesh({ settings, host, certificate }: PeerTlsOptions): FollowedTls {
  return {
    async current() {
      const own = await certificate;
      const roots = own?.caBundle();
      if (own === undefined || roots === undefined) {
        const message = 'tlsSettings of the mode MESH_MUTUAL need a certificate of this control plane and its CA';
        throw new CtlError('failed_precondition', message);
      }
      return { ...serverOf(settings, host), roots, client: own.pair() };
    },
    onChange(listener) {
      let stop: (() => void) | undefined;
      let stopped = false;
      void certificate.then((own) => {
        if (!stopped) stop = own?.onChange(listener);
      });
      return () => {
        stopped = true;
        stop?.();
      };
    },
  };
}

function ofFiles({ settings, host, clock }: PeerTlsOptions): FollowedTls {
  /** What the last connection used. */
  let used: StreamTls | undefined;
  const read = async (): Promise<StreamTls> => {
    const roots = await readPem('caCertificates', settings.caCertificates);
    const isMutual = settings.mode === 'MUTUAL';
    const chain = isMutual ? await readPem('clientCertificate', settings.clientCertificate) : '';
    const key = isMutual ? await readPem('privateKey', settings.privateKey) : '';
    const client = isMutual ? { chain, key } : undefined;
    check(roots, client);
    return { ...serverOf(settings, host), roots, client };
  };
  return {
    async current() {
      used = await read();
      return used;
    },
    onChange(listener) {
      let timer: Timer | undefined;
      let stopped = false;
      const wait = (): void => {
        if (!stopped) timer = clock.setTimer(INTERVAL_MS, () => void look());
      };
      const look = async (): Promise<void> => {
        // Files between two writes: what was read before stays in use, and the next connection reports a lasting fault.
        const now = await read().catch(() => undefined);
        const isNew = now !== undefined && used !== undefined && !isDeepStrictEqual(material(now), material(used));
        if (isNew && !stopped) listener();
        wait();
      };
      wait();
      return () => {
        stopped = true;
        timer?.cancel();
      };
    },
  };
}

function material({ roots, client }: StreamTls): unknown {
  return { roots, client };
}

async function readPem(field: string, path = ''): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new CtlError('failed_precondition', `tlsSettings.${field}: ${path} cannot be read: ${oneLineOf(error)}`);
  }
}

function check(roots: string, client: StreamTls['client']): void {
  try {
    createSecureContext({ ca: roots, ...(client === undefined ? {} : { cert: client.chain, key: client.key }) });
  } catch (error) {
    throw new CtlError('failed_precondition', `the files of tlsSettings are not usable: ${oneLineOf(error)}`);
  }
}

/** Which server is meant: one with one of `subjectAltNames`, else one with the name of the address. */
function serverOf(
  { sni, subjectAltNames }: ClientTlsSettings,
  host: string,
): Pick<StreamTls, 'serverName' | 'checkServer'> {
  const serverName = sni === undefined || sni === '' ? host : sni;
  if (subjectAltNames === undefined || subjectAltNames.length === 0) return { serverName };
  return { serverName, checkServer: (certificate) => checkNames(certificate, subjectAltNames) };
}

/** Names of the SAN as Node prints them: `DNS:a, URI:b, IP Address:c`. Names with a comma are quoted, and not accepted. */
function checkNames({ subjectaltname = '' }: PeerCertificate, expected: readonly string[]): Error | undefined {
  const names = subjectaltname.split(', ').map((name) => name.replace(/^(?:DNS|URI|IP Address):/, ''));
  if (names.some((name) => expected.includes(name))) return undefined;
  return new CtlError('unauthenticated', `its certificate has none of ${expected.join(', ')}`);
}
