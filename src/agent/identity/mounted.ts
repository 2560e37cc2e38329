/**
 * Follows secrets that another program writes into a directory (FILE_MOUNTED_CERTS). The files are read periodically
 * instead of watched: mounts change by swapped links, and watchers of files miss that after the first time. Files that
 * do not fit together, as between two writes, leave the last good set in force.
 */
import { oneLineOf } from '../../core/errors.ts';
import { createFailureLog, type Log } from '../../core/log.ts';
import { Refresh } from '../../core/scheduling/refresh.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import type { SecretSource, WorkloadSecrets } from '../types.ts';
import { readCertFiles } from './cert-files.ts';
import { createSecretHolder, secretSource } from './secret-holder.ts';

/** The folder where orchestrators mount them. */
export const MOUNTED_FOLDER = '/etc/certs';

/**
 * The interval of reads: the files are small, and certificates are replaced long before they expire, so a few seconds
 * do not matter.
 */
const CHECK_MS = 5_000;

export function createMountedSource(directory: string, clock: WallClock, log: Log): SecretSource {
  const holder = createSecretHolder(log);
  const state = createFailureLog(
    log,
    'the mounted certificates cannot be used',
    'the mounted certificates are usable again',
  );
  const refresh = new Refresh<WorkloadSecrets>({
    load: async () => ({ value: await readCertFiles(directory, clock.now()), refreshMs: CHECK_MS }),
    onValue(secrets) {
      state.succeeded();
      holder.set(secrets);
    },
    onFailure(error) {
      holder.failed(oneLineOf(error));
      state.failed(oneLineOf(error));
    },
    clock,
    retryMs: () => CHECK_MS,
  });
  return secretSource(holder, refresh);
}
