/** A process in a network namespace that makes raw calls: hundreds of requests without a program started for each. */
import { connect } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { eventually } from './eventually.ts';
import { tempDir } from './files.ts';
import type { Namespace } from './netns.ts';
import type { Owner } from './owner.ts';
import type { RawAnswer, RawCall } from './raw.ts';

const PROGRAM = join(import.meta.dirname, 'raw-main.ts');

export type RawClient = (call: RawCall) => Promise<RawAnswer>;

/** Starts the process. It ends with the namespace's owner. */
export async function startRawClient(owner: Owner, netns: Namespace): Promise<RawClient> {
  const path = join(await tempDir(owner), 'calls');
  const child = await netns.start('raw client', [process.execPath, PROGRAM, path]);
  await eventually(
    () => {
      child.assertRunning();
      if (!child.output().includes('ready')) throw new Error('not listening yet');
    },
    { timeoutMs: 30_000, what: 'raw client is ready' },
  );
  const socket = connect(path);
  owner.after(() => void socket.destroy());
  const waiting = new Map<number, { resolve(answer: RawAnswer): void; reject(error: Error): void }>();
  const fail = (error: Error) => {
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
  };
  socket.on('error', fail);
  socket.on('close', () => fail(new Error('raw client has ended')));
  createInterface({ input: socket }).on('line', (line) => {
    const { id, answer } = JSON.parse(line) as { id: number; answer: RawAnswer };
    waiting.get(id)?.resolve(answer);
    waiting.delete(id);
  });
  let calls = 0;
  return (call) =>
    new Promise((resolve, reject) => {
      const id = calls++;
      waiting.set(id, { resolve, reject });
      socket.write(`${JSON.stringify({ id, call })}\n`);
    });
}
