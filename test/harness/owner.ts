/** Who cleans up: a test, or a program such as the demo. Everything that the harness starts ends with its owner. */

/** What `node:test` gives a test; anything else that runs its hooks at its end will do. */
export interface Owner {
  after(hook: () => Promise<void> | void): void;
  /** Set when the owner has failed: logs of what it had started are then printed. */
  readonly error?: unknown;
}

/** An owner of its own, for programs: `close` runs the hooks, the last one first, and throws what they threw. */
export interface Scope extends Owner {
  close(): Promise<void>;
}

export function createScope(): Scope {
  const hooks: (() => Promise<void> | void)[] = [];
  return {
    after: (hook) => void hooks.push(hook),
    async close() {
      const failures: unknown[] = [];
      for (let hook = hooks.pop(); hook !== undefined; hook = hooks.pop()) {
        try {
          await hook();
        } catch (error) {
          failures.push(error);
        }
      }
      if (failures.length > 0) throw new AggregateError(failures, 'clean-up failed');
    },
  };
}
