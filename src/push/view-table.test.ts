import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { View } from '../generate/types.ts';
import type { ChangeSet } from '../model/types.ts';
import { emptySnapshot, sidecar } from './testing.ts';
import { IDLE_VIEW_MS, MAX_IDLE_VIEWS, ViewTable } from './view-table.ts';
import { viewsOf } from './views.ts';

const NOTHING: ChangeSet = {
  fromVersion: 1,
  toVersion: 2,
  everything: false,
  services: new Map(),
  endpoints: new Set(),
  peers: new Set(),
  peerAuthentication: new Set(),
  policies: new Set(),
  workloads: new Set(),
  addresses: new Set(),
  configs: new Map(),
  nameConflicts: [],
  scopes: new Map(),
};
const CHANGED = {
  everything: true,
  hosts: new Set<string>(),
  destinationRules: new Set<string>(),
  virtualServices: new Map(),
};

function outbound(namespace: string): View {
  const [view] = viewsOf(emptySnapshot(), sidecar('10.5.0.1', namespace));
  assert.ok(view !== undefined);
  return view;
}

function gatewayView(): View {
  const [view] = viewsOf(emptySnapshot(), { ...sidecar('10.5.0.9', 'edge'), type: 'router' });
  assert.ok(view !== undefined);
  return view;
}

describe('view table', () => {
  it('has one state for equal views', () => {
    const table = new ViewTable();
    assert.equal(table.take(outbound('a')), table.take(outbound('a')));
    assert.notEqual(table.take(outbound('a')), table.take(outbound('b')));
    assert.equal(table.size, 2);
  });

  it('finds the views that a change may concern: those of its scopes, and gateways', () => {
    const table = new ViewTable();
    const [a, b, edge] = [table.take(outbound('a')), table.take(outbound('b')), table.take(gatewayView())];
    assert.deepEqual([...table.concerned(NOTHING, [])], [edge]);
    assert.deepEqual([...table.concerned({ ...NOTHING, scopes: new Map([['a/', CHANGED]]) }, [])], [edge, a]);
    assert.deepEqual([...table.concerned(NOTHING, [b])], [edge, b]);
    assert.deepEqual(new Set(table.concerned({ ...NOTHING, everything: true }, [])), new Set([a, b, edge]));
  });

  it('drops a view that nobody has had for long, and forgets it everywhere', () => {
    const table = new ViewTable();
    const view = table.take(outbound('a'));
    table.vacated(view, 0);
    table.sweep(IDLE_VIEW_MS);
    assert.equal(table.size, 1);
    table.sweep(IDLE_VIEW_MS + 1);
    assert.equal(table.size, 0);
    assert.deepEqual([...table.ofScope('a/')], []);
    assert.notEqual(table.take(outbound('a')), view);
  });

  it('keeps a view that somebody has again, and one that is being generated', () => {
    const table = new ViewTable();
    const [taken, running] = [table.take(outbound('a')), table.take(outbound('b'))];
    table.vacated(taken, 0);
    table.vacated(running, 0);
    table.occupied(taken);
    running.begin();
    table.sweep(IDLE_VIEW_MS * 2);
    assert.deepEqual([...table.all()], [taken, running]);
    running.abandon();
    table.sweep(IDLE_VIEW_MS * 2);
    assert.deepEqual([...table.all()], [taken]);
  });

  it('keeps so many idle views and no more, the youngest', () => {
    const table = new ViewTable();
    const views = Array.from({ length: MAX_IDLE_VIEWS + 10 }, (_, index) => table.take(outbound(`n${index}`)));
    for (const [index, view] of views.entries()) table.vacated(view, index);
    table.sweep(MAX_IDLE_VIEWS + 10);
    assert.deepEqual([...table.all()], views.slice(10));
  });
});
