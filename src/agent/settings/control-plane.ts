/** The address of the control plane, and the name in its certificate. */
import { isIP } from 'node:net';
import { CtlError } from '../../core/errors.ts';

/** An address of the control plane. */
export interface ControlPlane {
  readonly host: string;
  readonly port: number;
  /** False for plain text. */
  readonly tls: boolean;
  /** DNS name that its certificate must have. */
  readonly serverName: string;
}

interface ControlPlaneOptions {
  /** `host:port` or `[v6]:port`. */
  readonly address: string;
  /** NONE means plain text, MUTUAL_TLS means TLS; otherwise, the port decides: 15010 is plain text. */
  readonly authPolicy: 'NONE' | 'MUTUAL_TLS' | 'INHERIT' | undefined;
  /** The name in the certificate (MESHD_CUSTOM_HOST); empty: the host, or for an IP address the default name. */
  readonly customHost: string;
  /** Namespace of the control plane. */
  readonly namespace: string;
  /** The setting with the address, for messages. */
  readonly source: string;
}

/** The namespace of the control plane, if no setting names it. */
export const DEFAULT_NAMESPACE = 'mesh-system';

/** The plain text port of ctl-discovery. */
const PLAIN_PORT = 15_010;

/** The default name of the control plane. */
export function defaultControlPlaneHost(namespace: string): string {
  return `meshd.${namespace}.svc`;
}

/** Throws a CtlError for an invalid address. */
export function controlPlane(options: ControlPlaneOptions): ControlPlane {
  const { address, authPolicy, customHost, namespace, source } = options;
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):(\d{1,5})$/.exec(address);
  const host = match?.[1] ?? match?.[2] ?? '';
  const port = Number(match?.[3]);
  if (host === '' || !(port >= 1 && port <= 65_535))
    throw new CtlError('invalid_argument', `expected host:port, such as meshd:15012, got ${JSON.stringify(address)}`, {
      file: source,
    });
  const tls = authPolicy === 'MUTUAL_TLS' || (authPolicy !== 'NONE' && port !== PLAIN_PORT);
  const [custom = ''] = customHost.split(',');
  const named = isIP(host) === 0 ? host : defaultControlPlaneHost(namespace);
  return { host, port, tls, serverName: custom.trim() === '' ? named : custom.trim() };
}
