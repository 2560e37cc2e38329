/** Opens the directory with the last good policies. */
import { systemClock } from '../../core/clock.ts';
import { getScope } from '../../logging/index.ts';
import { type LastGoodStore, openLastGood } from '../../store/index.ts';

/** @param directory CTL_STATE_DIR */
export async function openStateDirectory(directory: string): Promise<LastGoodStore> {
  return openLastGood({
    directory,
    warn: (message) => getScope('validation').warn(message),
    later: (ms, run) => void systemClock.setTimer(ms, run),
  });
}
