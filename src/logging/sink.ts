/**
 * Targets of log lines. A sink buffers lines for the rest of the event loop turn and writes them with one synchronous
 * call, so that nothing is lost at exit and a burst costs one system call. The buffer is bounded: when the reader of a
 * pipe is too slow, further lines are dropped and counted, because a slow log reader must never stall pushes.
 */

import * as nodeFs from 'node:fs';

export interface LogSink {
  /** Buffers one record with its line break. Never throws or blocks. */
  write(line: string): void;
  /** Writes the buffer as far as possible without blocking. */
  flush(): void;
  /** Writes the buffer, waiting a short time for a slow reader, and closes the file. */
  close(): void;
}

/** The file operations of sinks: tests replace them to simulate a full disk or a slow reader. */
type SinkFs = Pick<
  typeof nodeFs,
  'openSync' | 'closeSync' | 'writeSync' | 'fstatSync' | 'renameSync' | 'readdirSync' | 'unlinkSync' | 'existsSync'
>;

export interface SinkDeps {
  readonly fs: SinkFs;
  /** Runs a task after the current turn of the event loop. */
  readonly defer: (task: () => void) => void;
  /** Runs a task some milliseconds later, after a pipe was full. */
  readonly retry: (task: () => void) => void;
  /** Blocks the thread; used only while closing. */
  readonly pause: (ms: number) => void;
}

export const nodeSinkDeps: SinkDeps = {
  fs: nodeFs,
  defer: (task) => void setImmediate(task),
  retry: (task) => void setTimeout(task, 20).unref(),
  pause: (ms) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms),
};

/** The size of the buffer: about 20,000 lines, enough for a pause of the reader and little memory. */
export const MAX_BUFFERED_BYTES = 4 * 1024 * 1024;

/** How long closing waits for a slow reader, ms. */
const CLOSE_PATIENCE_MS = 500;
const CLOSE_PAUSE_MS = 10;

/** Formats the record that replaces dropped records. */
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
 * The file descriptor of stdout or stderr. Writing to a full pipe would block the thread, so a pipe is opened again
 * through /proc in non-blocking mode, for this sink only. Files, terminals and sockets are used as they are.
 */
function standardDescriptor(fd: 1 | 2, fs: SinkFs): Descriptor {
  try {
    if (fs.fstatSync(fd).isFIFO()) {
      const flags = nodeFs.constants.O_WRONLY | nodeFs.constants.O_NONBLOCK;
      return { fd: fs.openSync(`/proc/self/fd/${fd}`, flags), owned: true };
    }
  } catch {
    // There is no /proc, or it may not be opened: use the descriptor as it is.
  }
  return { fd, owned: false };
}

function descriptorSink(descriptor: Descriptor, notice: DropNotice, deps: SinkDeps): LogSink {
  let buffered: Buffer[] = [];
  let bufferedBytes = 0;
  let dropped = 0;
  let scheduled = false;
  let closed = false;

  const schedule = (how: (task: () => void) => void) => {
    if (scheduled || closed) return;
    scheduled = true;
    how(() => {
      scheduled = false;
      flush();
    });
  };

  const buffer = (line: string) => {
    const bytes = Buffer.from(line);
    buffered.push(bytes);
    bufferedBytes += bytes.length;
  };

  const flush = () => {
    if (closed || bufferedBytes === 0) return;
    let rest = Buffer.concat(buffered, bufferedBytes);
    try {
      while (rest.length > 0) rest = rest.subarray(deps.fs.writeSync(descriptor.fd, rest));
    } catch (error) {
      if (isBusy(error)) {
        schedule(deps.retry);
      } else {
        // The reader has closed the pipe or the disk is full. Nobody can be informed; the program continues.
        closed = isPermanent(error);
        dropped += countLines(rest);
        rest = Buffer.alloc(0);
      }
    }
    buffered = rest.length === 0 ? [] : [rest];
    bufferedBytes = rest.length;
  };

  return {
    write(line) {
      if (closed) return;
      // After dropping, wait until half of the buffer is free: otherwise the pipe would fill up with notices.
      if (bufferedBytes >= (dropped > 0 ? MAX_BUFFERED_BYTES / 2 : MAX_BUFFERED_BYTES)) {
        dropped += 1;
        return;
      }
      if (dropped > 0) {
        buffer(notice(dropped));
        dropped = 0;
      }
      buffer(line);
      schedule(deps.defer);
    },
    flush,
    close() {
      for (let waited = 0; waited <= CLOSE_PATIENCE_MS; waited += CLOSE_PAUSE_MS) {
        flush();
        if (bufferedBytes === 0 || closed) break;
        deps.pause(CLOSE_PAUSE_MS);
      }
      closed = true;
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

function isPermanent(error: unknown): boolean {
  return errorCode(error) === 'EPIPE' || errorCode(error) === 'EBADF';
}
