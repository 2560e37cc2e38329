/** The owner of what the harness starts: a test, or a program such as the demo. Everything ends with its owner. */

/** The part of a `node:test` context that is needed: it runs hooks at its end. */
export interface Owner {
  after(hook: () => Promise<void> | void): void;
  /** True when the owner has failed: the logs of everything that it started are then printed. */
  readonly error?: unknown;
}

/** An owner for programs: `close` runs the hooks, the last one first, and throws what they threw. */
export interface Scope extends Owner {
  close(): Promise<void>;
}

/**
 * A hook that takes longer has failed, and the next one runs, ms. Without a limit the process of the test, with all
 * that it has started, would stay until the limit for test files.
 */
const HOOK_MS = 60_000;
/** Beyond this time of all hooks, ms, each further one has less: a failed cluster has many that wait for it. */
const ALL_HOOKS_MS = 120_000;
const LATE_HOOK_MS = 5_000;

async function withinLimit(hook: () => Promise<void> | void, limitMs: number): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  const message = `did not end within ${limitMs / 1000} s: ${String(hook).slice(0, 200)}`;
  const timer = setTimeout(() => reject(new Error(message)), limitMs);
  try {
    await Promise.race([hook(), promise]);
  } finally {
    clearTimeout(timer);
  }
}

export function createScope(hookMs = HOOK_MS): Scope {
  const hooks: (() => Promise<void> | void)[] = [];
  return {
    after: (hook) => void hooks.push(hook),
    async close() {
      const failures: unknown[] = [];
      const began = performance.now();
      for (let hook = hooks.pop(); hook !== undefined; hook = hooks.pop()) {
        try {
          const left = Math.max(LATE_HOOK_MS, began + ALL_HOOKS_MS - performance.now());
          await withinLimit(hook, Math.min(hookMs, left));
        } catch (error) {
          failures.push(error);
        }
      }
      if (failures.length > 0) throw new AggregateError(failures, 'clean-up failed');
    },
  };
}
