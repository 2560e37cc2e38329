import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { workerUrl } from '../../paths.ts';
import { SETTINGS } from '../testing/webhook-client.ts';
import { createAdmissionPool } from './pool.ts';

test('settings are not checked after the pool was closed, and no thread is started', async (t) => {
  const pool = createAdmissionPool({ workerFile: fileURLToPath(workerUrl('admit')), onCrash: () => {} });
  t.after(() => pool.close());
  await pool.close();
  await assert.rejects(pool.check(SETTINGS), { code: 'unavailable', message: 'the control plane is stopping' });
  assert.deepEqual(pool.threads, { inject: [], validate: [] });
});
