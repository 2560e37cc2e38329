/**
 * The part of a kubelet's API that the API server asks for `kubectl logs`: the output of containers, with times. As a
 * kubelet without its own authority, it shows a certificate that the API server does not verify.
 */
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Owner } from '../owner.ts';
import { createAuthority } from './certificates.ts';

/** Lines of one container. */
const MAX_LINES = 50_000;

interface Line {
  readonly time: number;
  readonly text: string;
}

export class PodLogs {
  /** By `namespace/pod/container`. */
  readonly #lines = new Map<string, Line[]>();

  /** Returns what receives the output of a container. */
  writer(container: string): (text: string) => void {
    const lines = this.#lines.get(container) ?? [];
    this.#lines.set(container, lines);
    let rest = '';
    return (text) => {
      const parts = `${rest}${text}`.split('\n');
      rest = parts.pop() ?? '';
      const time = Date.now();
      for (const part of parts) lines.push({ time, text: part });
      if (lines.length > MAX_LINES) lines.splice(0, lines.length - MAX_LINES);
    };
  }

  forget(pod: string): void {
    for (const container of this.#lines.keys()) if (container.startsWith(`${pod}/`)) this.#lines.delete(container);
  }

  /** The last lines, at most so many. */
  tail(container: string, count: number): string {
    const lines = this.#lines.get(container) ?? [];
    return lines
      .slice(-count)
      .map(({ text }) => `${text}\n`)
      .join('');
  }

  /** The lines since a time, ms. */
  read(container: string, since: number): string | undefined {
    const lines = this.#lines.get(container);
    return lines
      ?.filter(({ time }) => time >= since)
      .map(({ text }) => `${text}\n`)
      .join('');
  }
}

const PATH = /^\/containerLogs\/([^/]+\/[^/]+\/[^/]+)$/;

/** Serves logs at an address until the owner ends; returns the port. */
export async function servePodLogs(owner: Owner, logs: PodLogs, address: string): Promise<number> {
  const { certificate: cert, key } = createAuthority();
  const server = createServer({ cert, key }, (incoming, answer) => {
    const { pathname, searchParams } = new URL(incoming.url ?? '/', 'https://kubelet');
    const since = Date.parse(searchParams.get('sinceTime') ?? '') || 0;
    const text = logs.read(PATH.exec(pathname)?.[1] ?? '', since);
    answer.statusCode = text === undefined ? 404 : 200;
    answer.end(text ?? 'no such container');
  });
  owner.after(() => {
    server.close();
    server.closeAllConnections();
  });
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, address, resolve));
  return (server.address() as AddressInfo).port;
}
