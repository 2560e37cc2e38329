/**
 * One configuration file, followed: the mesh configuration or the mesh networks. Without the file its default is in
 * force. A file that exists and cannot be read or is invalid ends the start: the default would allow what the file
 * forbids. While the program runs, a file that becomes unusable or disappears leaves the last value in force.
 */
import type { BigIntStats } from 'node:fs';
import { lstat, readFile, realpath, stat } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import type { Clock, Timer } from '../core/clock.ts';
import { CtlError, errnoOf, messageOf } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { fieldPath, type ParsedConfig, type ResourceProblem } from '../resources/index.ts';
import { parseYaml } from './complete-yaml.ts';
import { directoryIdentity } from './directory/scan.ts';
import { createTreeWatch } from './directory/tree-watch.ts';
import { decodeUtf8, NotUtf8 } from './utf8.ts';

export interface FileValueOptions<T> {
  readonly path: string;
  /** What the file configures, for messages: `mesh configuration`. */
  readonly what: string;
  readonly parse: (raw: unknown) => ParsedConfig<T>;
  readonly defaultValue: T;
  /** Called for every value that differs from the one before; `at` is when the change was noticed (`clock.now()`). */
  readonly onValue: (value: T, at: number) => void;
  readonly log: Log;
  readonly clock: Clock;
  /** Milliseconds between checks independent of events; 0 is never. */
  readonly resyncMs: number;
}

export interface FileValue<T> {
  /**
   * Reads the file for the first time (no `onValue` for that), then follows it.
   * @throws CtlError with file, line and field when the file exists and cannot be read or is invalid
   */
  start(): Promise<T>;
  value(): T;
  problem(): ResourceProblem | undefined;
  close(): Promise<void>;
}

/** Configuration files are small; a larger one is a mistake. */
const MAX_BYTES = 4 * 1024 * 1024;
/** Writers cause several events for a file, and finish shortly after the first. */
const QUIET_MS = 20;
const MAX_ALIASES = 100;

export function createFileValue<T>(options: FileValueOptions<T>): FileValue<T> {
  const { what, log, clock } = options;
  const path = resolve(options.path);
  let value = options.defaultValue;
  let problem: ResourceProblem | undefined;
  let signature: string | undefined;
  let text: string | undefined;
  let started = false;
  /** Whether `value` is from the file, and not `defaultValue`. */
  let fromFile = false;
  let closed = false;
  let timer: Timer | undefined;
  let resync: Timer | undefined;
  let working: Promise<void> = Promise.resolve();
  let noticedAt: number | undefined;

  const watcher = createTreeWatch({
    onEvent: (directory, name) => {
      // Of the directories on the path only the next step matters; of the file's own all names do, because mounts swap
      // hidden names.
      if (name !== undefined && directory !== dirname(path) && `${path}/`.startsWith(`${directory}/`)) {
        if (!path.startsWith(`${directory === '/' ? '' : directory}/${name}`)) return;
      }
      noticedAt ??= clock.now();
      timer ??= clock.setTimer(QUIET_MS, () => {
        timer = undefined;
        look();
      });
    },
    onUnavailable: (error) => log.warn(`no file system events for ${path} (${errnoOf(error) ?? String(error)})`),
  });

  const look = (): void => {
    working = working.then(async () => {
      const at = noticedAt ?? clock.now();
      noticedAt = undefined;
      if (!closed) await read(at);
    });
  };

  const read = async (at: number): Promise<void> => {
    await watchWay();
    const file = await inspect(path);
    if (file === 'absent') {
      if (signature !== undefined) log.warn(`${what} ${path} is gone; ${inForce()} stays in force until it is back`);
      else if (!started) log.info(`no ${what} ${path}; the default is in force`);
      signature = undefined;
      text = undefined;
      return;
    }
    const seen = 'unusable' in file ? file.unusable : signatureOf(file);
    if (seen === signature) return;
    signature = seen;
    const problem = 'unusable' in file ? file.unusable : sizeProblem(file);
    if (problem !== undefined) {
      text = undefined;
      return refuse({ field: '', message: problem, line: undefined });
    }
    try {
      const next = decodeUtf8(await readFile(path));
      // A file is empty between being truncated and being written; the write has its own event.
      if (next === text || (started && next === '')) return;
      text = next;
      take(next, at);
    } catch (error) {
      if (error instanceof CtlError) throw error;
      // Returning to the previous text counts as a change.
      text = undefined;
      const code = errnoOf(error);
      const message = code !== undefined ? `expected a readable file: ${code}` : messageOf(error);
      refuse({ field: '', message, line: error instanceof NotUtf8 ? error.line : undefined });
    }
  };

  const take = (content: string, at: number): void => {
    const { document, lines } = parseYaml(content);
    const lineAt = (offset: number | undefined) => (offset === undefined ? undefined : lines.linePos(offset).line);
    const [error] = document.errors;
    if (error !== undefined) {
      const message = error.code === 'MULTIPLE_DOCS' ? 'expected one document' : `expected YAML: ${error.message}`;
      refuse({ field: '', message, line: lineAt(error.pos[0]) });
      return;
    }
    const parsed = options.parse(document.toJS({ maxAliasCount: MAX_ALIASES }));
    if ('problem' in parsed) {
      const node: unknown = document.getIn(parsed.problem.path, true);
      const range = typeof node === 'object' && node !== null && 'range' in node ? node.range : undefined;
      const offset: unknown = Array.isArray(range) ? range[0] : undefined;
      const line = typeof offset === 'number' ? lineAt(offset) : undefined;
      refuse({ field: fieldPath(parsed.problem.path), message: parsed.problem.message, line });
      return;
    }
    problem = undefined;
    if (parsed.warning !== undefined) log.warn(`${what} ${path}: ${parsed.warning}`);
    const before = JSON.stringify(value);
    value = parsed.value;
    fromFile = true;
    if (started && JSON.stringify(value) !== before) options.onValue(value, at);
  };

  const inForce = (): string => (fromFile ? 'the last good one' : 'the default');

  const refuse = (refusal: { field: string; message: string; line: number | undefined }): void => {
    const { field, line } = refusal;
    const message = refusal.message.replaceAll('\n', ' ');
    const location = { file: path, ...(line === undefined ? {} : { line }) };
    problem = { id: path, origin: { source: 'file', ...location }, field, message };
    const error = new CtlError('failed_precondition', `${what}: ${message}`, { ...location, field });
    if (!started) throw error;
    log.error(`${error.oneLine()}; ${inForce()} stays in force`);
  };

  /** Watches the file's directory (or the closest existing one above), and that of its link's target. */
  const watchWay = async (): Promise<void> => {
    const wanted = new Map<string, string>();
    const want = async (directory: string): Promise<boolean> => {
      const identity = await directoryIdentity(directory).catch(() => undefined);
      if (identity === undefined) return false;
      wanted.set(directory, identity);
      watcher.add(directory, identity);
      return true;
    };
    for (let at = dirname(path); !(await want(at)) && at !== dirname(at); ) at = dirname(at);
    const target = await realpath(path).catch(() => undefined);
    if (target !== undefined) await want(dirname(target));
    watcher.retain(wanted);
  };

  const repeat = (): void => {
    if (options.resyncMs <= 0 || closed) return;
    resync = clock.setTimer(options.resyncMs, () => {
      look();
      repeat();
    });
  };

  return {
    async start() {
      log.debug(`following ${basename(path)}`, { file: path });
      await read(clock.now());
      if (text === '') log.info(`${what} ${path} is empty; the default is in force`);
      started = true;
      // The second check sees changes between the first reading and the watch.
      look();
      repeat();
      return value;
    },
    value: () => value,
    problem: () => problem,
    async close() {
      closed = true;
      watcher.close();
      timer?.cancel();
      resync?.cancel();
      await working;
    },
  };
}

/** The kind of thing at a path: nothing, a file, or something that cannot be read as a file. */
async function inspect(path: string): Promise<'absent' | BigIntStats | { readonly unusable: string }> {
  try {
    const info = await stat(path, { bigint: true });
    if (info.isFile()) return info;
    return { unusable: `expected a file, got ${info.isDirectory() ? 'a directory' : 'a special file'}` };
  } catch (error) {
    const code = errnoOf(error) ?? messageOf(error);
    if (code !== 'ENOENT') return { unusable: `expected a readable file: ${code}` };
    const isLink = await lstat(path).then(
      () => true,
      () => false,
    );
    return isLink ? { unusable: 'expected a file, got a link that leads nowhere' } : 'absent';
  }
}

function sizeProblem({ size }: BigIntStats): string | undefined {
  return size > MAX_BYTES ? `expected a file of at most ${MAX_BYTES} bytes, got ${size} bytes` : undefined;
}

/** Differs when the file was written or replaced, or its link points elsewhere. */
function signatureOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;
}
