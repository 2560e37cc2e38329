/** The worker of reviews, which keeps a document that names a folder until the test lets it go. */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { run as review } from '../../../workers/admit.ts';
import type { AdmissionReply, AdmissionTask } from '../admission/index.ts';
import { BEGUN, HELD_IN, LET_GO } from './held.ts';

const PAUSE_MS = 5;

export function run(task: AdmissionTask): AdmissionReply {
  if (task.kind === 'review') {
    const folder = new RegExp(`"${HELD_IN}":"([^"]*)"`).exec(Buffer.from(task.body).toString())?.[1];
    if (folder !== undefined) waitIn(folder);
  }
  return review(task);
}

function waitIn(folder: string): void {
  writeFileSync(join(folder, BEGUN), '');
  const nobody = new Int32Array(new SharedArrayBuffer(4));
  while (!existsSync(join(folder, LET_GO))) Atomics.wait(nobody, 0, 0, PAUSE_MS);
}
