/** A stream of MCP whose requests a test writes, and what readers of Istio print. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type ClientStream, openClientStream } from '../../../src/grpc/index.ts';
import { encode, istio } from '../../../src/protobuf/index.ts';
import type { Line } from '../../mcp/build.ts';
import { NETWORKING } from './document-servers.ts';

const PATH = '/istio.mcp.v1alpha1.ResourceSource/EstablishResourceStream';
const TIMES = { connectTimeoutMs: 10_000, keepaliveMs: 60_000, keepaliveTimeoutMs: 10_000 };

/** A request for VirtualServices. */
export function routesRequest(fields: istio.mcp.v1alpha1.RequestResources.Input = {}): Uint8Array {
  return encode(istio.mcp.v1alpha1.RequestResources, { collection: `${NETWORKING}/virtualservices`, ...fields });
}

/**
 * @param certs directory with the certificate of the reader
 * @param streamWindow bytes that may be sent to it
 */
export async function connectReader(
  port: number,
  certs: string,
  streamWindow: number,
): Promise<{ readonly stream: ClientStream; readonly messages: readonly Buffer[] }> {
  const names = ['cert-chain.pem', 'key.pem', 'root-cert.pem'];
  const [chain = '', key = '', roots = ''] = await Promise.all(
    names.map((name) => readFile(join(certs, name), 'utf8')),
  );
  const tls = { roots, client: { chain, key }, serverName: '127.0.0.1' };
  const [messages, opened]: [Buffer[], PromiseWithResolvers<void>] = [[], Promise.withResolvers()];
  const options = { maxMessageBytes: 1_000_000, streamWindow, connectionWindow: 100_000, ...TIMES };
  const stream = openClientStream({ host: '127.0.0.1', port, tls, path: PATH }, options, {
    opened: opened.resolve,
    message: (bytes) => void messages.push(bytes),
    ended: opened.reject,
  });
  await opened.promise;
  return { stream, messages };
}

/** The documents that a reader of Istio has now, by name. */
export function documentsOf(lines: readonly Line[], collection: string): Readonly<Record<string, unknown>> {
  const has: Record<string, unknown> = {};
  for (const line of lines) {
    if (line.collection !== collection) continue;
    if (line.incremental !== true) for (const name of Object.keys(has)) delete has[name];
    for (const name of (line.removed ?? []) as string[]) delete has[name];
    for (const { name, spec } of line.documents as { name: string; spec: unknown }[]) has[name] = spec;
  }
  return has;
}
