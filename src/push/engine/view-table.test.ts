import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DEFAULT_PLACEMENT, type View } from '../../generate/views.ts';
import { viewsOf } from '../proxies/proxy-views.ts';
import type { PlacedSessionView, Session } from '../sessions/session.ts';
import { emptySnapshot, sidecar } from '../testing/mesh.ts';
import { MAX_VIEWS_OF_CALLER } from './caller-views.ts';
import { IDLE_VIEW_MS, MAX_IDLE_VIEWS, ViewTable } from './view-table.ts';

function outbound(namespace: string): View {
  const [view] = viewsOf(emptySnapshot(), sidecar('10.5.0.1', namespace));
  assert.ok(view !== undefined);
  return view;
}

/** A table only reads the caller and the proxy of a session. */
function session(caller: string): Session {
  return { caller, node: NODE } as Session;
}

/** A proxy of no workload in the registry. */
const NODE = sidecar('10.5.0.1', 'a');

function vacate(table: ViewTable, view: PlacedSessionView, now: number): void {
  const only = session('only');
  table.enter(view, only);
  assert.ok(table.leave(view, only, now));
}

function newTable(): ViewTable {
  const snapshot = emptySnapshot();
  const scopes = { acquire: () => {}, release: () => false };
  return new ViewTable({ scopes, onReleased: () => {}, snapshot: () => snapshot, onWanted: () => {} });
}

describe('view table', () => {
  it('has one state for equal views', () => {
    const table = newTable();
    assert.equal(table.take(outbound('a'), DEFAULT_PLACEMENT), table.take(outbound('a'), DEFAULT_PLACEMENT));
    assert.notEqual(table.take(outbound('a'), DEFAULT_PLACEMENT), table.take(outbound('b'), DEFAULT_PLACEMENT));
    assert.equal(table.size, 2);
  });

  it('drops a view that was idle for too long, everywhere', () => {
    const table = newTable();
    const view = table.take(outbound('a'), DEFAULT_PLACEMENT);
    vacate(table, view, 0);
    table.sweep(IDLE_VIEW_MS);
    assert.equal(table.size, 1);
    table.sweep(IDLE_VIEW_MS + 1);
    assert.equal(table.size, 0);
    assert.notEqual(table.take(outbound('a'), DEFAULT_PLACEMENT), view);
  });

  it('keeps a view that is used again, and one that is being generated', () => {
    const table = newTable();
    const [taken, running] = [
      table.take(outbound('a'), DEFAULT_PLACEMENT),
      table.take(outbound('b'), DEFAULT_PLACEMENT),
    ];
    vacate(table, taken, 0);
    vacate(table, running, 0);
    table.enter(taken, session('again'));
    running.view.begin();
    table.sweep(IDLE_VIEW_MS * 2);
    assert.deepEqual([...table.all()], [taken.view, running.view]);
    running.view.abandon(new Error('broken'));
    table.sweep(IDLE_VIEW_MS * 2);
    assert.deepEqual([...table.all()], [taken.view]);
  });

  it('keeps the most recent idle views, up to the limit', () => {
    const table = newTable();
    const views = Array.from({ length: MAX_IDLE_VIEWS + 10 }, (_, index) =>
      table.take(outbound(`n${index}`), DEFAULT_PLACEMENT),
    );
    for (const [index, view] of views.entries()) vacate(table, view, index);
    table.sweep(MAX_IDLE_VIEWS + 10);
    assert.deepEqual(
      [...table.all()],
      views.slice(10).map(({ view }) => view),
    );
  });

  it('gives one caller no more views than the limit, others theirs, and frees them when sessions leave', () => {
    const table = newTable();
    const sessions = Array.from({ length: MAX_VIEWS_OF_CALLER }, (_, index) => {
      const view = outbound(`n${index}`);
      table.admit('greedy', NODE, [view], DEFAULT_PLACEMENT);
      const one = session('greedy');
      table.enter(table.take(view, DEFAULT_PLACEMENT), one);
      // Replicas have the same.
      const replica = session('greedy');
      table.enter(table.take(view, DEFAULT_PLACEMENT), replica);
      return { view, one, replica };
    });
    assert.equal(table.countOf('greedy'), MAX_VIEWS_OF_CALLER);
    const exhausted = { code: 'resource_exhausted', message: /greedy.* 1024/ };
    assert.throws(() => table.admit('greedy', NODE, [outbound('more')], DEFAULT_PLACEMENT), exhausted);
    // What it has already may be had again; what only others have may not.
    table.admit('greedy', NODE, [outbound('n7')], DEFAULT_PLACEMENT);
    table.admit('honest', NODE, [outbound('more')], DEFAULT_PLACEMENT);
    table.enter(table.take(outbound('more'), DEFAULT_PLACEMENT), session('honest'));
    assert.throws(() => table.admit('greedy', NODE, [outbound('more')], DEFAULT_PLACEMENT), exhausted);
    for (const { view, one } of sessions) table.leave(table.take(view, DEFAULT_PLACEMENT), one, 0);
    assert.equal(table.countOf('greedy'), MAX_VIEWS_OF_CALLER);
    for (const [index, { view, replica }] of sessions.entries()) {
      table.leave(table.take(view, DEFAULT_PLACEMENT), replica, 0);
      assert.equal(table.countOf('greedy'), MAX_VIEWS_OF_CALLER - index - 1);
    }
  });
});
