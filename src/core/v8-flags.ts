/**
 * How eagerly V8 compiles what already runs. Nearly all work of the service is done by code that has run a few thousand
 * times: compiled a second time, at ten times the cost, it would have to run a hundred thousand times to gain. Loops
 * over all services or proxies run once and are long, so that V8 compiles them while they run, twice (on-stack
 * replacement): 0.3 CPU s of a start.
 *
 * Said once a thread has loaded its code, and by the last to do so: V8 takes code compiled in advance (Node's own
 * modules are) only under the flags that it was compiled under.
 */
import { setFlagsFromString } from 'node:v8';

const FLAGS = ['--invocation-count-for-maglev=2000', '--invocation-count-for-turbofan=30000', '--no-use-osr'];

/** For the whole process. Another Node may not know the flags, and does without. */
export function compileLittle(): void {
  if (process.versions.node.startsWith('24.')) for (const flag of FLAGS) setFlagsFromString(flag);
}
