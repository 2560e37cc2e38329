/** `npm start -- --once`: runs every check and prints it. */
import { CHECKS } from './checks.ts';
import type { DemoMesh } from './mesh.ts';

/** Gives the exit code: 0 when every check has passed. A check that fails does not keep the others from running. */
export async function proveOnce(mesh: DemoMesh, print: (line: string) => void, signal: AbortSignal): Promise<number> {
  let failed = 0;
  for (const { name, run } of CHECKS) {
    signal.throwIfAborted();
    try {
      print(`pass  ${name}: ${await Promise.race([run(mesh), mesh.broken])}`);
    } catch (error) {
      failed++;
      print(`FAIL  ${name}: ${causes(error)}`);
    }
  }
  print(`${CHECKS.length - failed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

/** An error and what caused it, in one line. */
function causes(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const line = error.message.replace(/\s+/g, ' ');
  return error.cause === undefined ? line : `${line} (${causes(error.cause)})`;
}
