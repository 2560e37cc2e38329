/**
 * A log file that is rotated when it is too large or too old (`--log_rotate*`). The name of a backup has its time,
 * `mesh-2026-01-01T00-00-00.000.log` for `mesh.log`, so that names sort by age. Surplus backups are deleted, the oldest
 * first.
 */

import { basename, dirname, extname, join } from 'node:path';
import { type DropNotice, type LogSink, nodeSinkDeps, openSink, type SinkDeps } from './sink.ts';

export interface RotateOptions {
  readonly path: string;
  /** The largest size of the file in bytes; 0 means no limit. */
  readonly maxBytes: number;
  /** The largest age of the file in milliseconds; 0 means no limit. */
  readonly maxAgeMs: number;
  /** Backups kept; 0 means all. */
  readonly maxBackups: number;
}

const MEBIBYTE = 1024 * 1024;

/**
 * The size of `--log_rotate_max_size` in bytes. Istio documents megabytes, but the default is 104857600, which
 * is 100 MiB in bytes and 100 TiB in megabytes. So a number below 1048576 is in megabytes and a larger one, like the
 * default, in bytes: log files of a tebibyte are not useful.
 */
export function rotateMaxBytes(maxSize: number): number {
  return maxSize < MEBIBYTE ? maxSize * MEBIBYTE : maxSize;
}

/** Opens the file at `path` for appending. `now` is Unix time in ms. Throws when it cannot be opened. */
export function openRotatingSink(
  options: RotateOptions,
  notice: DropNotice,
  now: () => number,
  deps: SinkDeps = nodeSinkDeps,
): LogSink {
  let file = openFile(options.path, notice, now, deps);

  const due = (bytes: number) => {
    if (file.bytes === 0) return false;
    if (options.maxBytes > 0 && file.bytes + bytes > options.maxBytes) return true;
    return options.maxAgeMs > 0 && now() - file.bornAt >= options.maxAgeMs;
  };

  const rotate = () => {
    file.sink.close();
    try {
      deps.fs.renameSync(options.path, freeBackupName(options.path, now(), deps));
      prune(options, deps);
      file = openFile(options.path, notice, now, deps);
    } catch {
      // The directory may be read-only or full: continue with the same file, and try again when it has grown by its
      // limit.
      file = reopen(options.path, notice, now, deps) ?? file;
    }
  };

  return {
    write(line) {
      const bytes = Buffer.byteLength(line);
      if (due(bytes)) rotate();
      file.bytes += bytes;
      file.sink.write(line);
    },
    flush: () => file.sink.flush(),
    close: () => file.sink.close(),
  };
}

interface OpenFile {
  readonly sink: LogSink;
  /** Unix time in ms of the first record in the file. */
  readonly bornAt: number;
  bytes: number;
}

function openFile(path: string, notice: DropNotice, now: () => number, deps: SinkDeps): OpenFile {
  const sink = openSink(path, notice, deps);
  const fd = deps.fs.openSync(path, 'r');
  try {
    const stat = deps.fs.fstatSync(fd);
    // The age of a file with content is that of the file system; if this is unknown, the age starts now.
    const bornAt = stat.size > 0 && stat.birthtimeMs > 0 ? stat.birthtimeMs : now();
    return { sink, bornAt, bytes: stat.size };
  } finally {
    deps.fs.closeSync(fd);
  }
}

function reopen(path: string, notice: DropNotice, now: () => number, deps: SinkDeps): OpenFile | undefined {
  try {
    return { sink: openSink(path, notice, deps), bornAt: now(), bytes: 0 };
  } catch {
    return undefined;
  }
}

function freeBackupName(path: string, time: number, deps: SinkDeps): string {
  const { stem, extension } = nameParts(path);
  const stamp = new Date(time).toISOString().slice(0, -1).replaceAll(':', '-');
  for (let attempt = 0; ; attempt += 1) {
    const name = join(dirname(path), `${stem}-${stamp}${attempt === 0 ? '' : `-${attempt}`}${extension}`);
    if (!deps.fs.existsSync(name)) return name;
  }
}

function prune(options: RotateOptions, deps: SinkDeps): void {
  if (options.maxBackups === 0) return;
  const { stem, extension } = nameParts(options.path);
  const backups = deps.fs
    .readdirSync(dirname(options.path))
    .flatMap((name) => {
      if (!name.startsWith(`${stem}-`) || !name.endsWith(extension)) return [];
      const stamp = /^(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3})(?:-(\d+))?$/.exec(
        name.slice(stem.length + 1, name.length - extension.length),
      );
      return stamp === null ? [] : [{ name, moment: stamp[1] ?? '', turn: Number(stamp[2] ?? 0) }];
    })
    .sort((a, b) => (a.moment === b.moment ? a.turn - b.turn : a.moment < b.moment ? -1 : 1));
  for (const { name } of backups.slice(0, Math.max(0, backups.length - options.maxBackups))) {
    deps.fs.unlinkSync(join(dirname(options.path), name));
  }
}

function nameParts(path: string): { stem: string; extension: string } {
  const extension = extname(path);
  return { stem: basename(path, extension), extension };
}
