/** A directory source in a temporary directory, and what it has sent. */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { type Clock, systemClock } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import { keyOf, type ResourceEvent } from '../../resources/index.ts';
import { createDirectorySource } from '../directory/directory.ts';

/** A Service document. */
export const service = (name: string, port = 80) =>
  `apiVersion: v1\nkind: Service\nmetadata: {name: ${name}}\nspec: {ports: [{port: ${port}}]}\n`;

/** Follows a directory for one test; `until` waits for a state that the events lead to. */
export async function follow(
  context: TestContext,
  prepare: (dir: string) => Promise<unknown> = async () => {},
  clock: Clock = systemClock,
) {
  const base = await mkdtemp(join(tmpdir(), 'meshd-directory-'));
  const dir = join(base, 'config');
  await mkdir(dir);
  await prepare(dir);
  const state = new Map<string, number | undefined>();
  const problems = new Map<string, string>();
  const warnings: string[] = [];
  const sets: string[] = [];
  const deletes: string[] = [];
  /** For how long it had been quiet when a batch came, according to the source. */
  const quiet: number[] = [];
  /** Times at which changes were announced. */
  const signs: number[] = [];
  /** Messages of all problems there have been. */
  const seen: string[] = [];
  let synced = false;
  let failure: string | undefined;
  let wake = () => {};
  const note = (message: string) => {
    warnings.push(message);
    wake();
  };
  const take = (event: ResourceEvent): void => {
    if (event.type === 'set') {
      assert.ok(event.resource.kind === 'Service');
      sets.push(event.resource.meta.name);
      state.set(event.resource.meta.name, event.resource.content.spec.ports?.[0]?.port);
      problems.delete(keyOf(event.resource));
    } else if (event.type === 'delete') {
      deletes.push(event.key);
      state.delete(event.key.slice('Service/default/'.length));
    } else if (event.type === 'invalid') {
      seen.push(event.problem.message);
      problems.set(event.problem.id, event.problem.message);
    } else problems.delete(event.id);
  };
  const source = createDirectorySource({
    dir,
    cluster: 'c',
    log: { debug: () => {}, info: () => {}, warn: note, error: note },
    clock,
    resyncMs: 0,
  });
  context.after(async () => {
    await source.close();
    await rm(base, { recursive: true, force: true });
  });
  const until = async (what: string, condition: () => boolean): Promise<void> => {
    const deadline = Date.now() + 60_000;
    while (!condition()) {
      assert.ok(
        Date.now() < deadline,
        `never: ${what}; state ${JSON.stringify([...state])}, problems ${JSON.stringify([...problems])}`,
      );
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 200);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  };
  const is = (expected: Record<string, number>) => until(JSON.stringify(expected), () => same(state, expected));
  source.start({
    apply: (events, seenAt = 0) => {
      quiet.push(clock.now() - seenAt);
      for (const event of events) take(event);
      wake();
    },
    replace: () => assert.fail('a directory tells changes'),
    changing: (at) => void signs.push(at),
  });
  source.synced
    .then(() => {
      synced = true;
    })
    .catch((error: unknown) => {
      failure = error instanceof CtlError ? error.oneLine() : String(error);
    })
    .finally(() => wake());
  const isSynced = () => synced;
  return {
    dir,
    base,
    source,
    state,
    problems,
    seen,
    quiet,
    signs,
    warnings,
    sets,
    deletes,
    until,
    is,
    isSynced,
    failed: () => failure,
  };
}

function same(state: ReadonlyMap<string, number | undefined>, expected: Record<string, number>): boolean {
  const entries = Object.entries(expected);
  return state.size === entries.length && entries.every(([name, port]) => state.get(name) === port);
}
