/** One clock for all processes of the machine: CLOCK_MONOTONIC, in milliseconds. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
