/** Plain TCP connections that only count bytes: the best that the machine can do. */
import { connect, type Socket } from 'node:net';
import { monotonicMs } from '../world/clock.ts';
import type { Arrivals } from './messages.ts';

const SHARED = Buffer.allocUnsafeSlow(256 * 1024);

interface Line {
  socket: Socket | undefined;
  bytes: number;
  /** When the goal of this round was reached; 0: not yet. */
  at: number;
}

export class RawSink {
  readonly #goal: number;
  #lines: readonly Line[] = [];
  #wake: () => void = () => {};

  /** `bytes`: what each connection gets in a round. */
  constructor(bytes: number) {
    this.#goal = bytes;
  }

  async open(port: number, count: number): Promise<undefined> {
    this.#lines = await Promise.all(Array.from({ length: count }, () => this.#line(port)));
    return undefined;
  }

  #line(port: number): Promise<Line> {
    return new Promise((resolve, reject) => {
      const line: Line = { socket: undefined, bytes: 0, at: 0 };
      const callback = (length: number): boolean => {
        line.bytes += length;
        if (line.at === 0 && line.bytes >= this.#goal) {
          line.at = monotonicMs();
          this.#wake();
        }
        return true;
      };
      line.socket = connect({ host: '127.0.0.1', port, onread: { buffer: SHARED, callback } });
      line.socket.once('error', reject);
      line.socket.once('connect', () => resolve(line));
    });
  }

  /** Resolves when each connection has received its bytes of this round. Then the next round begins. */
  async arrived(timeoutMs: number): Promise<Arrivals> {
    const missing = (): number => this.#lines.filter(({ at }) => at === 0).length;
    let left = missing();
    if (left > 0)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, timeoutMs);
        this.#wake = () => {
          if (--left > 0) return;
          clearTimeout(timer);
          resolve();
        };
      });
    const arrivals = { at: this.#lines.map(({ at }) => at), missing: missing() };
    for (const line of this.#lines) {
      line.bytes -= this.#goal;
      line.at = 0;
    }
    return arrivals;
  }

  close(): void {
    for (const { socket } of this.#lines) socket?.destroy();
  }
}
