/**
 * For any events of sources, the store agrees with a simple model: the last state of each source, and the first source
 * that has a key.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../core/testing/properties.ts';
import { inCluster } from '../resources/index.ts';
import { keyOf, type ResourceKey } from '../resources/kinds/types.ts';
import type { ScriptedSource } from '../sources/testing/scripted.ts';
import { problem, resource, TEST_KINDS, type TestKind } from './testing/documents.ts';
import { HOME, openWorld, SOURCES, said } from './testing/world.ts';

/** The model's state of a name in one source. */
interface Told {
  readonly good: number | undefined;
  readonly refused: boolean;
}

type Step =
  | { readonly op: 'list' | 'disconnect' | 'resume' | 'repeat' }
  /** `version` 0: refused; undefined: removed. */
  | { readonly op: 'change'; readonly kind: TestKind; readonly name: string; readonly version: number | undefined };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      op: fc.constant('change' as const),
      kind: fc.constantFrom(...TEST_KINDS),
      name: fc.constantFrom('a', 'b'),
      version: fc.option(fc.nat(3), { nil: undefined }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ op: fc.constantFrom('list', 'disconnect', 'resume', 'repeat') }) },
);

function play(source: ScriptedSource, todo: Step): void {
  if (todo.op === 'disconnect') source.disconnect('gone');
  else if (todo.op !== 'change') source[todo.op]();
  else if (todo.version === undefined) source.remove(`${todo.kind}/ns/${todo.name}`);
  else if (todo.version === 0) source.refuse(problem(todo.kind, todo.name));
  else source.set(resource(todo.kind, todo.name, todo.version));
}

/**
 * The state of a source at the end of its script: a refused document keeps its earlier version.
 */
function modelOf(steps: readonly Step[]): Map<string, Told> {
  const server = new Map<string, number>();
  const told = new Map<string, Told>();
  let missed: (readonly [string, number | undefined])[] = [];
  let [listed, watching] = [false, false];
  const tell = (name: string, version: number | undefined): void => {
    if (version === undefined) told.delete(name);
    else
      told.set(name, version === 0 ? { good: told.get(name)?.good, refused: true } : { good: version, refused: false });
  };
  for (const todo of steps) {
    if (todo.op === 'change') {
      const name = `${todo.kind}/ns/${todo.name}`;
      if (todo.version === undefined) server.delete(name);
      else server.set(name, todo.version);
      if (watching) tell(name, todo.version);
      else missed.push([name, todo.version]);
    } else if (todo.op === 'disconnect') watching = false;
    else if (todo.op === 'list') {
      for (const name of told.keys()) if (!server.has(name)) told.delete(name);
      for (const [name, version] of server) tell(name, version);
      [listed, watching, missed] = [true, true, []];
    } else if (todo.op === 'resume' && listed) {
      for (const [name, version] of missed) tell(name, version);
      [watching, missed] = [true, []];
    }
  }
  return told;
}

/** The expected documents in force, by key, from the models of all sources in their order. */
function expectedInForce(models: readonly ReadonlyMap<string, Told>[]): Map<ResourceKey, string> {
  const expected = new Map<ResourceKey, string>();
  for (const [index, model] of models.entries()) {
    for (const [name, { good, refused }] of model) {
      const kind = name.slice(0, name.indexOf('/'));
      const key = kind === 'Service' && SOURCES[index]?.cluster !== HOME ? `${name}/east` : name;
      const says = good !== undefined ? `${kind}:${good}` : refused && kind === 'AuthorizationPolicy' ? '~' : undefined;
      if (says !== undefined && !expected.has(key)) expected.set(key, says);
    }
  }
  return expected;
}

const sorted = <T>(entries: Iterable<readonly [string, T]>): (readonly [string, T])[] =>
  [...entries].sort(([a], [b]) => (a < b ? -1 : 1));

test('property: for any interleaving of events, the documents in force follow from the last states of the sources', () => {
  const scripts = fc.tuple(...SOURCES.map(() => fc.array(step, { maxLength: 25 })));
  fc.assert(
    fc.property(scripts, fc.infiniteStream(fc.nat(3)), (all, picks) => {
      const { sources, store, hold, follower } = openWorld();
      const queues = all.map((steps) => [...steps]);
      while (queues.some((queue) => queue.length > 0)) {
        const pick = picks.next().value ?? 0;
        const [source, queue] = [sources[pick], queues[pick]];
        if (source === undefined) follower.inForce();
        const todo = queue?.shift();
        if (source !== undefined && todo !== undefined) play(source, todo);
      }
      const models = all.map(modelOf);
      const inForce = [...follower.inForce()].map(([key, each]) => [key, said(each)] as const);
      assert.deepEqual(sorted(inForce), sorted(expectedInForce(models)));
      for (const [key, each] of follower.inForce()) {
        assert.equal(keyOf(each), key);
        const cluster = each.meta.cluster;
        if (cluster !== undefined) assert.equal(each.fingerprint, inCluster(each, cluster).fingerprint);
      }
      const refused = models.flatMap((model, index) =>
        [...model].flatMap(([name, told]) => (told.refused ? `${SOURCES[index]?.id} ${name}` : [])),
      );
      const idOf = ({ id }: { id: string }): string => id.split('/').slice(0, 3).join('/');
      assert.deepEqual(
        store
          .problems()
          .map((each) => `${each.origin.source} ${idOf(each)}`)
          .sort(),
        refused.sort(),
      );
      assert.equal(hold.all().length, refused.filter((each) => each.includes('AuthorizationPolicy')).length);
    }),
    { numRuns: 300 },
  );
});
