/** Learned hosts in a file of the state directory, where there is no cluster. */
import { join } from 'node:path';
import { errnoOf, oneLineOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { preparePrivateFolder, readPrivateFile, replacePrivateFile } from '../../core/tls/private-files.ts';
import { MAX_CHECKPOINT_BYTES } from './checkpoint.ts';
import type { Place } from './saved-hosts.ts';

const FILE = 'learned-hosts.json';

/** @param directory CTL_STATE_DIR */
export function fileIn(directory: string, log: Log): Place {
  const title = join(directory, FILE);
  return {
    title,
    open(received) {
      try {
        received(readPrivateFile(title, MAX_CHECKPOINT_BYTES));
      } catch (error) {
        if (errnoOf(error) !== 'ENOENT')
          log.warn(`${title}: the hosts that sidecars have learned cannot be read: ${oneLineOf(error)}`);
      }
    },
    async write(text) {
      await preparePrivateFolder(directory);
      await replacePrivateFile(directory, FILE, text);
      return true;
    },
    close: () => Promise.resolve(),
  };
}
