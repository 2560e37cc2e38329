/**
 * The directory of `--configDir` as a source: every YAML and JSON file below it, followed by kernel events.
 *
 * event → changed paths → stat → read what differs → ledger → ResourceEvents
 *
 * An event only says where to look; the comparison with the last reading decides. A lost event therefore costs no more
 * than the time to the next one, or to the resync. Editors and copying tools leave files half-written or absent for a
 * moment: what looks like that (resources missing, a document that cannot be identified, a file missing) must stay so
 * for SETTLE_MS first. When the whole directory disappears, or an empty one replaces it (an unmounted volume), all its
 * resources stay in force until files are back. A document that cannot be read at start ends the start: no earlier
 * version of it could stay in force, and it may forbid something.
 */
import { basename, dirname, join, resolve } from 'node:path';
import type { Clock, Timer } from '../../core/clock.ts';
import { CtlError, errnoOf, messageOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { HealthLog } from '../health.ts';
import type { Source, SourceSink } from '../source.ts';
import { type FilePart, SOURCE } from './documents.ts';
import { createIgnoredKinds } from './ignored-kinds.ts';
import { createLedger } from './ledger.ts';
import { readResourceFile } from './read-file.ts';
import {
  directoryIdentity,
  isDetour,
  isResourceFile,
  type Scan,
  type ScannedFile,
  scanTree,
  statBelow,
} from './scan.ts';
import { Slicer } from './slices.ts';
import { Suspicions } from './suspicions.ts';
import { createTreeWatch } from './tree-watch.ts';

export interface DirectorySourceOptions {
  readonly dir: string;
  /** The cluster of the workloads that the files describe. */
  readonly cluster: string;
  readonly log: Log;
  readonly clock: Clock;
  /** Milliseconds between full scans, independent of events; 0 is never. */
  readonly resyncMs: number;
}

/** Writers cause several events for a file; waiting this long after the last of them makes one reading of it. */
const QUIET_MS = 10;
/** Maximum time that continuous events may delay a scan. */
const MAX_WAIT_MS = 100;
/** How long a file must look incomplete before that counts. */
const SETTLE_MS = 50;
/**
 * How long a file must be empty before that counts: people delete files, and programs that write slowly empty them
 * first.
 */
const EMPTY_SETTLE_MS = 1000;
/**
 * How long a directory may be missing at start before that is logged again, and how often from then on: nothing is
 * served meanwhile.
 */
const REMIND_FIRST_MS = 5000;
const REMIND_MS = 60_000;
/** Only where the system gives no events. */
const POLL_MS = 1000;

interface KnownFile {
  readonly signature: string;
  readonly parts: readonly FilePart[];
}

/** Why a directory cannot be read, for people. */
function stateOf(error: unknown): string {
  const code = errnoOf(error);
  if (code === 'ENOENT') return 'does not exist';
  return code === 'ENOTDIR' ? 'is no directory' : `cannot be listed (${code ?? String(error)})`;
}

/**
 * Sends one batch of events per scan; the first has everything that exists at start. Waits for a directory that does
 * not exist.
 */
export function createDirectorySource(options: DirectorySourceOptions): Source {
  const { log, clock, resyncMs } = options;
  const root = resolve(options.dir);
  const ledger = createLedger();
  const ignored = createIgnoredKinds(log);
  const known = new Map<string, KnownFile>();
  const suspicions = new Suspicions(clock.now);
  /** Paths that are not followed, as of the last scan. */
  let refused: ReadonlySet<string> = new Set();
  /** Identity of the directory that was read last; undefined while it is missing. */
  let rootIdentity: string | undefined;
  const timers = new Set<Timer>();
  let dirty = new Map<string, number>();
  let everything: { readonly eventTime: number } | undefined;
  /** Time of the last event until a scan begins. */
  let signAt: number | undefined;
  let waitingSince: number | undefined;
  let waiting: Timer | undefined;
  let working: Promise<void> | undefined;
  let startedAt = 0;
  let sink: SourceSink | undefined;
  let synced = false;
  const firstRead = Promise.withResolvers<void>();
  firstRead.promise.catch(() => {});
  const health = new HealthLog(log);
  let polling = false;
  let closed = false;
  /** The first document that cannot be read at start. */
  let startError: CtlError | undefined;

  const watcher = createTreeWatch({
    onEvent: (directory, name) => noteEvent(directory, name),
    onUnavailable: (error) => startPolling(error),
  });

  const later = (ms: number, run: () => void): Timer => {
    const timer = clock.setTimer(ms, () => {
      timers.delete(timer);
      run();
    });
    timers.add(timer);
    return timer;
  };

  const noteEvent = (directory: string, name: string | undefined): void => {
    const now = clock.now();
    const inTree = directory === root || directory.startsWith(`${root}/`);
    // Above the root only the path to it matters; other entries there do not.
    if (!inTree && name !== undefined && `${root}/`.startsWith(`${directory}/`)) {
      if (!`${root}/`.startsWith(`${join(directory, name)}/`)) return;
    }
    const isPlain = inTree && !directory.slice(root.length).includes('/.');
    if (isPlain && name !== undefined && isResourceFile(name)) {
      const path = join(directory, name);
      dirty.set(path, dirty.get(path) ?? now);
      sink?.changing(now);
    } else everything ??= { eventTime: now };
    signAt = now;
    lookSoon();
  };

  /** Scans once there have been no events for a moment, or continuous ones for too long. */
  const lookSoon = (): void => {
    if (closed) return;
    const now = clock.now();
    waitingSince ??= now;
    if (waiting !== undefined) {
      waiting.cancel();
      timers.delete(waiting);
    }
    const wait = Math.max(0, Math.min(QUIET_MS, waitingSince + MAX_WAIT_MS - now));
    waiting = later(wait, () => {
      waiting = undefined;
      waitingSince = undefined;
      look();
    });
  };

  /** One scan at a time; changes noticed meanwhile are scanned afterwards. */
  const look = (): void => {
    if (closed || working !== undefined) return;
    working = lookOnce()
      .catch((error: unknown) => {
        log.error(`cannot read ${root}: ${messageOf(error)}`);
      })
      .finally(() => {
        working = undefined;
        if (everything !== undefined || dirty.size > 0) lookSoon();
      });
  };

  const lookOnce = async (): Promise<void> => {
    const paths = dirty;
    // While something cannot be read, a single path is not enough.
    const full = everything ?? (health.current.ok ? undefined : { eventTime: clock.now() });
    const sign = signAt;
    signAt = undefined;
    dirty = new Map();
    everything = undefined;
    const scan = full === undefined ? undefined : await scanAll();
    if (full !== undefined && scan === undefined) return;
    const eventTimes: number[] = [];
    if (scan !== undefined) noteRefused(scan.refused);
    const found = scan === undefined ? await changedAmong(paths) : changedIn(scan, full?.eventTime ?? clock.now());
    // Missing files come last: the new files show whether they were renamed.
    const changed = [
      ...found.filter(({ file }) => file !== undefined),
      ...found.filter(({ file }) => file === undefined),
    ];
    const slicer = new Slicer(clock.now);
    for (const change of changed) {
      await slicer.pause();
      const eventTime = await take(change, slicer);
      if (closed) return;
      if (eventTime !== undefined) eventTimes.push(eventTime);
    }
    if (startError !== undefined) return failStart(startError);
    settleLater();
    ignored.tell();
    const events = ledger.flush(eventTimes.length === 0 ? clock.now() : Math.min(...eventTimes));
    // Without an event, such as for a file that stayed as it was for long enough, the change counts from now.
    if (events.length > 0) sink?.apply(events, signAt ?? sign ?? clock.now());
    if (!synced && scan !== undefined) {
      synced = true;
      log.info(`read ${known.size} files in ${root}`);
      firstRead.resolve();
    }
  };

  interface Change {
    readonly path: string;
    readonly file: ScannedFile | undefined;
    readonly eventTime: number;
  }

  /** Scans the tree and watches all of it. `undefined` when there is no directory. */
  const scanAll = async (): Promise<Scan | undefined> => {
    const above = await watchAbove();
    try {
      const scan = await scanTree(root, (path, identity) => watcher.add(path, identity));
      watcher.retain(new Map([...scan.directories, ...above]));
      const identity = scan.directories.get(root);
      if (known.size > 0 && scan.files.size === 0 && identity !== rootIdentity) {
        suspicions.clearAll();
        const reason = `config directory ${root} is another one than before, and empty`;
        health.bad(reason, 'what was there stays in force until there is a file in it');
        return undefined;
      }
      rootIdentity = identity;
      const [unlisted, ...others] = scan.unreadable;
      if (unlisted === undefined) health.good(`config directory ${root} can be read again`);
      else if (synced) {
        const more = others.length === 0 ? '' : ` and ${others.length} more`;
        health.bad(`cannot list ${unlisted}${more}`, 'what was there stays in force');
      } else startError ??= new CtlError('failed_precondition', 'expected a readable folder', { file: unlisted });
      return scan;
    } catch (error) {
      watcher.retain(above);
      rootIdentity = undefined;
      suspicions.clearAll();
      const state = stateOf(error);
      if (!synced && errnoOf(error) !== 'ENOENT') {
        failStart(new CtlError('failed_precondition', `the directory of --configDir ${state}`, { file: root }));
        return undefined;
      }
      const consequence = `${synced ? 'what it gave stays in force until' : 'waiting until'} it is there`;
      health.bad(`config directory ${root} ${state}`, consequence);
      return undefined;
    }
  };

  const failStart = (error: CtlError): void => {
    closed = true;
    firstRead.reject(error);
  };

  /** Watches the closest existing directory above the root, where the root will appear, be replaced, or vanish. */
  const watchAbove = async (): Promise<Map<string, string>> => {
    for (let path = dirname(root); ; path = dirname(path)) {
      const identity = await directoryIdentity(path);
      if (identity !== undefined) {
        watcher.add(path, identity);
        return new Map([[path, identity]]);
      }
      if (path === dirname(path)) return new Map();
    }
  };

  const changedIn = (scan: Scan, eventTime: number): Change[] => {
    const changed: Change[] = [];
    for (const [path, file] of scan.files) {
      if (known.get(path)?.signature !== file.signature) changed.push({ path, file, eventTime });
      else suspicions.clear(path);
    }
    for (const path of known.keys()) {
      const hidden = scan.refused.has(path) || scan.unreadable.some((directory) => path.startsWith(`${directory}/`));
      if (hidden) suspicions.clear(path);
      else if (!scan.files.has(path)) changed.push({ path, file: undefined, eventTime });
    }
    return changed;
  };

  /** A path that is not followed is a problem for as long as it exists. */
  const noteRefused = (paths: ReadonlyMap<string, string>): void => {
    for (const path of refused) if (!paths.has(path) && !known.has(path)) ledger.remove(path);
    refused = new Set(paths.keys());
    for (const [path, message] of paths) {
      ledger.put(path, { unreadable: { id: path, origin: { source: SOURCE, file: path }, field: '', message } });
    }
  };

  const changedAmong = async (paths: ReadonlyMap<string, number>): Promise<Change[]> => {
    const changed: Change[] = [];
    for (const [path, eventTime] of paths) {
      // The target of a link may have to be watched now, which the scan does.
      if (await isDetour(path)) {
        everything ??= { eventTime };
        continue;
      }
      const file = await statBelow(root, path);
      if (file === 'unknown') {
        suspicions.clear(path);
        everything ??= { eventTime };
      } else if (known.get(path)?.signature !== file?.signature) changed.push({ path, file, eventTime });
      else suspicions.clear(path);
    }
    return changed;
  };

  /** @returns when the change was noticed, if it was accepted; `undefined` while it may be incomplete */
  const take = async (change: Change, slicer: Slicer): Promise<number | undefined> => {
    const { path, file } = change;
    const eventTime = Math.min(change.eventTime, suspicions.noticedAt(path) ?? change.eventTime);
    if (file === undefined) {
      if (!ledger.isGivenElsewhere(path) && !believe(path, undefined, eventTime)) return undefined;
      suspicions.clear(path);
      known.delete(path);
      ledger.remove(path);
      return eventTime;
    }
    const read = await slicer.run(readResourceFile(path, file.size, known.get(path)?.parts));
    if ('problem' in read) {
      const { origin, message } = read.problem;
      if (!synced && read.state === 'unread') {
        startError ??= new CtlError('failed_precondition', message, { ...origin });
      }
      // The first half of a character, as a copying tool leaves it for a moment, is not UTF-8.
      if (synced && !believe(path, file.signature, eventTime)) return undefined;
      known.set(path, { signature: file.signature, parts: known.get(path)?.parts ?? [] });
      ledger.put(path, { unreadable: read.problem });
      return eventTime;
    }
    const documents = read.parts.flatMap((part) => part.found);
    const settleMs = file.size === 0 ? EMPTY_SETTLE_MS : SETTLE_MS;
    if (synced && ledger.isSuspicious(path, documents) && !believe(path, file.signature, eventTime, settleMs))
      return undefined;
    suspicions.clear(path);
    known.set(path, { signature: file.signature, parts: read.parts });
    ignored.note(documents);
    ledger.put(path, { documents });
    return eventTime;
  };

  const believe = (path: string, signature: string | undefined, eventTime: number, settleMs = SETTLE_MS): boolean =>
    suspicions.believe(path, signature, eventTime, settleMs);

  const settleLater = (): void => {
    if (suspicions.size === 0 || closed) return;
    later(SETTLE_MS, () => {
      for (const [path, eventTime] of suspicions.noticed()) dirty.set(path, dirty.get(path) ?? eventTime);
      look();
    });
  };

  const startPolling = (error: unknown): void => {
    if (polling) return;
    polling = true;
    log.warn(
      `no file system events in ${root} (${errnoOf(error) ?? String(error)}); looking every ${POLL_MS} ms instead`,
    );
    repeat(POLL_MS);
  };

  /**
   * Logs again that the directory is missing, until it has been read for the first time; and scans, in case events
   * fail.
   */
  const remind = (ms: number): void => {
    later(ms, () => {
      if (synced || closed) return;
      if (!health.current.ok) {
        const seconds = Math.round((clock.now() - startedAt) / 1000);
        log.warn(`${health.current.reason}, for ${seconds} s now; nothing is served until it is there`);
      }
      everything ??= { eventTime: clock.now() };
      look();
      remind(REMIND_MS);
    });
  };

  const repeat = (ms: number): void => {
    if (ms <= 0 || closed) return;
    later(ms, () => {
      everything ??= { eventTime: clock.now() };
      look();
      repeat(ms);
    });
  };

  return {
    id: SOURCE,
    cluster: options.cluster,
    synced: firstRead.promise,
    health: () => health.current,
    start(to) {
      sink = to;
      log.debug(`watching ${basename(root)}`, { directory: root });
      startedAt = clock.now();
      everything = { eventTime: startedAt };
      look();
      remind(REMIND_FIRST_MS);
      repeat(resyncMs);
    },
    async close() {
      closed = true;
      watcher.close();
      for (const timer of timers) timer.cancel();
      timers.clear();
      await working;
    },
  };
}
