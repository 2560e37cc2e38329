/**
 * Follows a plugged-in root. The files are checked periodically, because renewal may swap links, rename files, or write
 * in place. Files that do not match leave the last good root in force. They are reported when the next check
 * finds them unchanged: until then a write may be in progress. Replaced roots stay trusted until they expire, for the
 * certificates that they have signed, but only while the program runs; to keep them trusted after a restart, leave them
 * in `root-cert.pem`.
 */
import { X509Certificate } from 'node:crypto';
import { Refresh } from '../../core/scheduling/refresh.ts';
import { SerialWork } from '../../core/scheduling/serial-work.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import { checkPlugged, type PluggedRoot, type PluggedText, readPlugged } from './plugged-files.ts';
import type { OpenedSource, RootEvents, RootSet, RootSource } from './root-source.ts';

/** How often the files are checked, ms: mounts are updated within a minute or two. */
const CHECK_MS = 10_000;

/**
 * The maximum number of former roots that stay trusted; to keep more of them trusted, list them in `root-cert.pem`.
 */
const MAX_FORMER = 8;

export interface PluggedOptions {
  readonly directory: string;
  readonly clock: WallClock;
  readonly events: RootEvents;
  readonly log: (message: string) => void;
}

/** Opens the root. Rejects with a CtlError that names the file when it cannot be used. */
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
  /** The problem of the last check; it is reported when it is found twice. */
  let lastProblem = '';
  const work = new SerialWork();
  let closed = false;

  /** Computes the trusted roots. True when they have changed. */
  const gather = (): boolean => {
    const now = clock.now();
    former = former.filter((pem) => !plugged.bundle.includes(pem) && now < notAfterOf(pem)).slice(0, MAX_FORMER);
    const bundle = [...plugged.bundle, ...former];
    const changed = bundle.join('') !== roots.bundle.join('') || plugged.path.join('') !== roots.path.join('');
    roots = { ...plugged, bundle };
    return changed;
  };

  /** Puts the content of the files in force. Throws CtlError when it is invalid. */
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

  /** What the check in progress has found in the files. */
  let seen = '';
  const check = async (): Promise<void> => {
    seen = '';
    const next = await readPlugged(directory);
    seen = next.fingerprint;
    if (seen !== inForce) apply(next);
    else if (gather()) events.changed(roots);
  };
  const refresh = new Refresh<void>({
    load: async () => ({ value: await work.run(check), refreshMs: CHECK_MS }),
    onValue: () => {
      lastProblem = '';
    },
    onFailure(error) {
      seen ||= error.message;
      if (seen === lastProblem) events.problem(error);
      lastProblem = seen;
    },
    clock,
    retryMs: () => CHECK_MS,
  });
  refresh.startWith({ value: undefined, refreshMs: CHECK_MS });

  return {
    roots: () => roots,
    material: () => work.run(async () => apply(await readPlugged(directory)).material),
    async close() {
      closed = true;
      void refresh.close();
    },
  };
}

function notAfterOf(pem: string): number {
  return new X509Certificate(pem).validToDate.getTime();
}
