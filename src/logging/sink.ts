/**
 * Where log lines go. A sink keeps lines for the rest of the event loop turn and writes them with one synchronous call,
 * so that nothing is lost at exit and a burst costs one system call. What is kept is bounded: when the reader of a pipe
 * stands still, lines beyond the bound are dropped and counted, because a stuck log reader must never stall the pushes.
 */

import * as nodeFs from 'node:fs';

export interface LogSink {
  /** Takes one record, line break included. Never throws, never waits. */
  write(line: string): void;
  /** Writes what is kept, as far as it can be without waiting. */
  flush(): void;
  /** Writes what is kept, waiting a moment for a slow reader, and lets go of the file. */
  close(): void;
}

/** The file operations of sinks, so that tests can make a disk full or a reader slow. */
type SinkFs = Pick<
  typeof nodeFs,
  'openSync' | 'closeSync' | 'writeSync' | 'fstatSync' | 'renameSync' | 'readdirSync' | 'unlinkSync' | 'existsSync'
>;

export interface SinkDeps {
  readonly fs: SinkFs;
  /** Runs a task after the current turn of the event loop. */
  readonly defer: (task: () => void) => void;
  /** Runs a task a moment later, when a pipe was full. */
  readonly retry: (task: () => void) => void;
  /** Blocks the thread; only while closing. */
  readonly pause: (ms: number) => void;
}

export const nodeSinkDeps: SinkDeps = {
  fs: nodeFs,
  defer: (task) => void setImmediate(task),
  retry: (task) => void setTimeout(task, 20).unref(),
  pause: (ms) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms),
};

/** Bytes kept for a reader that stands still. About 20,000 lines: enough to ride out a pause, nothing that hurts. */
export const MAX_KEPT_BYTES = 4 * 1024 * 1024;

/** How long closing waits for a reader that stands still, ms. */
const CLOSE_PATIENCE_MS = 500;
const CLOSE_PAUSE_MS = 10;

/** Words the record that stands where records were dropped. */
export type DropNotice = (dropped: number) => string;

/** A sink on `stdout`, `stderr` or a file that is appended to. Throws when the file cannot be opened. */
export function openSink(target: string, notice: DropNotice, deps: SinkDeps = nodeSinkDeps): LogSink {
  if (target === 'stdout') return descriptorSink(standardDescriptor(1, deps.fs), notice, deps);
  if (target === 'stderr') return descriptorSink(standardDescriptor(2, deps.fs), notice, deps);
  return descriptorSink({ fd: deps.fs.openSync(target, 'a', 0o644), owned: true }, notice, deps);
}

interface Descriptor {
  readonly fd: number;
  readonly owned: boolean;
}

/**
 * Writing to a full pipe blocks the thread. A pipe can be opened once more through /proc without blocking, for this
 * sink alone; files, terminals and sockets cannot or need not, and are written as they are.
 */
function standardDescriptor(fd: 1 | 2, fs: SinkFs): Descriptor {
  try {
    if (fs.fstatSync(fd).isFIFO()) {
      const flags = nodeFs.constants.O_WRONLY | nodeFs.constants.O_NONBLOCK;
      return { fd: fs.openSync(`/proc/self/fd/${fd}`, flags), owned: true };
    }
  } catch {
    // No /proc, or not ours to open: write as it is.
  }
  return { fd, owned: false };
}

function descriptorSink(descriptor: Descriptor, notice: DropNotice, deps: SinkDeps): LogSink {
  let kept: Buffer[] = [];
  let keptBytes = 0;
  let dropped = 0;
  let scheduled = false;
  let gone = false;

  const schedule = (how: (task: () => void) => void) => {
    if (scheduled || gone) return;
    scheduled = true;
    how(() => {
      scheduled = false;
      flush();
    });
  };

  const keep = (line: string) => {
    const bytes = Buffer.from(line);
    kept.push(bytes);
    keptBytes += bytes.length;
  };

  const flush = () => {
    if (gone || keptBytes === 0) return;
    let rest = Buffer.concat(kept, keptBytes);
    try {
      while (rest.length > 0) rest = rest.subarray(deps.fs.writeSync(descriptor.fd, rest));
    } catch (error) {
      if (isBusy(error)) {
        schedule(deps.retry);
      } else {
        // The reader has gone or the disk is full: there is no one to tell, and the program goes on.
        gone = isLasting(error);
        dropped += countLines(rest);
        rest = Buffer.alloc(0);
      }
    }
    kept = rest.length === 0 ? [] : [rest];
    keptBytes = rest.length;
  };

  return {
    write(line) {
      if (gone) return;
      // Once full, room for half must be there again: a notice every few lines would only fill the pipe with notices.
      if (keptBytes >= (dropped > 0 ? MAX_KEPT_BYTES / 2 : MAX_KEPT_BYTES)) {
        dropped += 1;
        return;
      }
      if (dropped > 0) {
        keep(notice(dropped));
        dropped = 0;
      }
      keep(line);
      schedule(deps.defer);
    },
    flush,
    close() {
      for (let waited = 0; waited <= CLOSE_PATIENCE_MS; waited += CLOSE_PAUSE_MS) {
        flush();
        if (keptBytes === 0 || gone) break;
        deps.pause(CLOSE_PAUSE_MS);
      }
      gone = true;
      if (descriptor.owned) deps.fs.closeSync(descriptor.fd);
    },
  };
}

function countLines(bytes: Buffer): number {
  let lines = 0;
  for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) lines += 1;
  return lines;
}

function errorCode(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

function isBusy(error: unknown): boolean {
  return errorCode(error) === 'EAGAIN';
}

function isLasting(error: unknown): boolean {
  return errorCode(error) === 'EPIPE' || errorCode(error) === 'EBADF';
}
