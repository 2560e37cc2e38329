/** Waiting in tests for what happens by itself, however slow the machine is. */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';

const STEP_MS = 2;
/** Long beyond what a starved machine needs: reached only by a condition that never comes true. */
const DEADLINE_MS = 60_000;

export interface WaitOptions {
  /** Done between two looks, such as moving a clock on. */
  readonly step?: () => Promise<unknown> | undefined;
  /** Names what was waited for when it never came. */
  readonly what?: () => string;
}

/** Resolves when `done` answers true; fails when it has not after a minute. */
export async function waitUntil(done: () => boolean, { step, what }: WaitOptions = {}): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  while (!done()) {
    assert.ok(performance.now() < deadline, `never came true: ${what?.() ?? done.toString()}`);
    await step?.();
    await pause(STEP_MS);
  }
}
