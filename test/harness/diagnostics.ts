/** Reports that help to explain a wait that timed out: the state of what the harness runs, such as Pods. */
import type { Owner } from './owner.ts';

const reports = new Set<() => string>();

/** Has the report printed after each wait that times out, and at the end of an owner that failed. */
export function reportFailures(owner: Owner, report: () => string): void {
  reports.add(report);
  owner.after(() => {
    reports.delete(report);
    if (owner.error) process.stderr.write(report());
  });
}

/** Prints all reports. */
export function printReports(): void {
  for (const report of reports) process.stderr.write(report());
}
