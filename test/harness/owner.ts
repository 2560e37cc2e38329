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
