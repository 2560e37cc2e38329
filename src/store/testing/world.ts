/** A store with scripted sources behind it: two of the program's own cluster, one of another. */
import assert from 'node:assert/strict';
import type { AnyResource } from '../../resources/kinds/types.ts';
import { ScriptedSource } from '../../sources/testing/scripted.ts';
import { RefusedPolicies } from '../refused-policies.ts';
import { createStore } from '../store.ts';
import { Follower } from './follower.ts';
import { Memory } from './memory.ts';

export const HOME = 'home';
export const SOURCES = [
  { id: 'files', cluster: HOME },
  { id: 'api', cluster: HOME },
  { id: 'east', cluster: 'east' },
] as const;

/** A store with scripted sources behind it. `at` is the time of what happens next. */
export function openWorld({ appNamespaces = [] }: { readonly appNamespaces?: readonly string[] } = {}) {
  const clock = { at: 0 };
  const lines: string[] = [];
  const shared: string[] = [];
  const note = (line: string): void => void lines.push(line);
  const lastGood = new Memory();
  const refusedPolicies = new RefusedPolicies({ lastGood, rootNamespace: 'root' });
  const store = createStore({
    sources: SOURCES,
    cluster: HOME,
    appNamespaces,
    rootNamespace: 'root',
    refusedPolicies,
    onRefused: (source, { id }) => void lines.push(`${source}: ${id} refused`),
    onResolved: (source, { id }) => void lines.push(`${source}: ${id} resolved`),
    onTakeover: (key, from, { source }) => void shared.push(`${key} ${from} -> ${source}`),
    onShared: (key, documents) => void shared.push(`${key} ${documents.map(({ source }) => source).join(' ')}`),
  });
  const sources = SOURCES.map(
    (identity) => new ScriptedSource({ ...identity, now: () => clock.at, log: { warn: note, info: note } }),
  );
  for (const source of sources) {
    source.start({
      apply: (events) => void store.apply(source.id, events),
      replace: (list) => void store.replace(source.id, list),
      changing: () => {},
    });
  }
  const [files, api, east] = sources;
  assert.ok(files !== undefined && api !== undefined && east !== undefined);
  return {
    clock,
    lines,
    shared,
    lastGood,
    hold: refusedPolicies,
    store,
    sources,
    files,
    api,
    east,
    follower: new Follower(store),
  };
}

/** Kind, name, and the port that tells versions apart; `~` for the strictest that a refused policy can have meant. */
export function said({ kind, content, meta }: AnyResource): string {
  const version = /"(?:port|number)":(\d+)|"ports":\["(\d+)"/.exec(JSON.stringify(content));
  return meta.substitute === undefined ? `${kind}:${version?.[1] ?? version?.[2]}` : '~';
}
