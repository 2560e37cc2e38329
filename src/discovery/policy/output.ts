/** Writes the lines of handlers to the output of this program, without waiting for its reader. */
import { type LogSink, openSink } from '../../logging/index.ts';

const TARGETS = { STDOUT: 'stdout', STDERR: 'stderr' } as const;

export class HandlerOutput {
  readonly #onDropped: (lines: number) => void;
  readonly #sinks = new Map<keyof typeof TARGETS, LogSink>();

  /** @param onDropped called with the number of lines that were dropped, once the reader takes lines again */
  constructor(onDropped: (lines: number) => void) {
    this.#onDropped = onDropped;
  }

  write(stream: keyof typeof TARGETS, line: string): void {
    this.#sinkOf(stream).write(line);
  }

  /** Waits a short time for a slow reader. */
  close(): void {
    for (const sink of this.#sinks.values()) sink.close();
    this.#sinks.clear();
  }

  #sinkOf(stream: keyof typeof TARGETS): LogSink {
    const known = this.#sinks.get(stream);
    if (known !== undefined) return known;
    const sink = openSink(TARGETS[stream], (lines) => {
      this.#onDropped(lines);
      // Programs that parse the lines of handlers expect no others.
      return '';
    });
    this.#sinks.set(stream, sink);
    return sink;
  }
}
