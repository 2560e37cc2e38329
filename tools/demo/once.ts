/** `npm start -- --once`: runs every check and prints it. */
import { CHECKS, Skip } from './checks.ts';
import type { DemoMesh } from './mesh.ts';

/** Gives the exit code: 0 when no check has failed. A check that fails does not keep the others from running. */
export async function proveOnce(mesh: DemoMesh, print: (line: string) => void, signal: AbortSignal): Promise<number> {
  let failed = 0;
  let skipped = 0;
  for (const { name, run } of CHECKS) {
    signal.throwIfAborted();
    try {
      print(`pass  ${name}: ${await Promise.race([run(mesh), mesh.broken])}`);
    } catch (error) {
      if (error instanceof Skip) {
        skipped++;
        print(`skip  ${name}: ${error.message}`);
      } else {
        failed++;
        print(`FAIL  ${name}: ${causes(error)}`);
      }
    }
  }
  const passed = CHECKS.length - failed - skipped;
  print(`${passed} passed, ${failed} failed${skipped === 0 ? '' : `, ${skipped} skipped`}`);
  return failed === 0 ? 0 : 1;
}

/** An error and what caused it, in one line. */
function causes(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const line = error.message.replace(/\s+/g, ' ');
  return error.cause === undefined ? line : `${line} (${causes(error.cause)})`;
}
