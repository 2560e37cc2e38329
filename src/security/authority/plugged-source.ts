/**
 * Follows a plugged-in root. The files are looked at again and again, because whoever renews them may swap links,
 * rename, or write in place; what does not fit together leaves the last good root in force, and is told of when the
 * next look finds it the same: until then somebody may be writing. Roots that are replaced stay trusted until they end,
 * for the certificates that they have signed; this does not outlive the program: an operator who wants that leaves them
 * in `root-cert.pem`.
 */
import { X509Certificate } from 'node:crypto';
import type { Timer } from '../../core/clock.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import { checkPlugged, type PluggedRoot, type PluggedText, readPlugged } from './plugged-files.ts';
import type { OpenedSource, RootEvents, RootSet, RootSource } from './root-source.ts';

/** How often the files are looked at, ms: mounts are renewed within a minute or two. */
const LOOK_MS = 10_000;

/**
 * Roots that are trusted still though not plugged in any more: somebody who plugs in more of them within their lives
 * has to say which.
 */
const MAX_FORMER = 8;

export interface PluggedOptions {
  readonly directory: string;
  readonly clock: WallClock;
  readonly events: RootEvents;
  readonly log: (message: string) => void;
}

/** Rejects with CtlError naming the file when the root cannot be used. */
export async function openPlugged(options: PluggedOptions): Promise<OpenedSource> {
  const text = await readPlugged(options.directory);
  const first = checkPlugged(text, options.clock.now());
  return { source: follow(options, text, first), material: first.material };
}

function follow({ directory, clock, events, log }: PluggedOptions, text: PluggedText, first: PluggedRoot): RootSource {
  let inForce = text.fingerprint;
  let plugged: RootSet = first.roots;
  let former: readonly string[] = [];
  let roots: RootSet = first.roots;
  /** What was wrong at the last look; a fault counts when it is found twice. */
  let suspicion = '';
  let turn: Promise<unknown> = Promise.resolve();
  let timer: Timer | undefined;
  let closed = false;

  /** Puts together what is trusted; whether that has changed. */
  const gather = (): boolean => {
    const now = clock.now();
    former = former.filter((pem) => !plugged.bundle.includes(pem) && now < endOf(pem)).slice(0, MAX_FORMER);
    const bundle = [...plugged.bundle, ...former];
    const changed = bundle.join('') !== roots.bundle.join('') || plugged.path.join('') !== roots.path.join('');
    roots = { ...plugged, bundle };
    return changed;
  };

  /** Takes over what the files say, if that is new. Throws what is wrong with it. */
  const apply = (next: PluggedText): PluggedRoot => {
    const root = checkPlugged(next, clock.now());
    if (next.fingerprint !== inForce && !closed) {
      inForce = next.fingerprint;
      former = [...plugged.bundle, ...former];
      plugged = root.roots;
      gather();
      log('the plugged-in root has changed');
      events.changed(roots, root.material);
    }
    return root;
  };

  const look = async (): Promise<void> => {
    let seen = '';
    try {
      const next = await readPlugged(directory);
      seen = next.fingerprint;
      if (seen !== inForce) apply(next);
      else if (gather()) events.changed(roots);
      suspicion = '';
    } catch (error) {
      seen ||= String(error);
      if (seen === suspicion) events.problem(error);
      suspicion = seen;
    }
  };

  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const result = turn.then(work);
    turn = result.catch(() => {});
    return result;
  };

  const schedule = (): void => {
    if (!closed) timer = clock.setTimer(LOOK_MS, () => void inTurn(look).finally(schedule));
  };
  schedule();

  return {
    roots: () => roots,
    material: () => inTurn(async () => apply(await readPlugged(directory)).material),
    async close() {
      closed = true;
      timer?.cancel();
    },
  };
}

function endOf(pem: string): number {
  return new X509Certificate(pem).validToDate.getTime();
}
