/**
 * Makes V8 optimize code later. Most work of the service is done by code that has run a few thousand times. The second
 * compilation costs ten times as much as the first, and pays off only after a hundred thousand calls. Loops over all
 * services or proxies run once and are long, so that V8 would compile them twice while they run (on-stack replacement):
 * 0.3 CPU s of a start.
 *
 * Call it after a thread has loaded its code, and in the last thread that loads code: V8 uses precompiled code (such as
 * Node's own modules) only with the flags with which it was compiled.
 */
import { setFlagsFromString } from 'node:v8';

const FLAGS = ['--invocation-count-for-maglev=2000', '--invocation-count-for-turbofan=30000', '--no-use-osr'];

/** Applies to the whole process. Does nothing in another version of Node, which may not know the flags. */
export function delayOptimization(): void {
  if (process.versions.node.startsWith('24.')) for (const flag of FLAGS) setFlagsFromString(flag);
}
