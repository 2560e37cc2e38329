import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DEFAULT_PLACEMENT } from '../../generate/views.ts';
import { BundleTemplates } from '../bundles/bundle-templates.ts';
import { EndpointEncoder } from '../bundles/endpoint-encoder.ts';
import { Interner } from '../bundles/interner.ts';
import { type GeneratedJob, InlineGenerator } from '../jobs/generator.ts';
import { viewsOf } from '../proxies/proxy-views.ts';
import type { Push, PushReason } from '../push.ts';
import { emptySnapshot, sidecar } from '../testing/mesh.ts';
import { ViewState } from './view-state.ts';

/** An outbound view of which somebody wants clusters, and what generates it. */
function newView() {
  const snapshot = emptySnapshot();
  const [view] = viewsOf(snapshot, sidecar('10.5.0.1', 'shop'));
  assert.ok(view !== undefined);
  const state = new ViewState('key', view, () => snapshot);
  const generator = new InlineGenerator(snapshot);
  const interner = new Interner();
  const encoders = { interner, endpoints: new EndpointEncoder(interner), templates: new BundleTemplates() };
  const commit = async (change: (job: GeneratedJob) => GeneratedJob = (job) => job) => {
    state.begin();
    return state.commit(change(await generator.submit(state)), snapshot, encoders);
  };
  return { state, commit };
}

function pushOf(eventTime: number, reason: PushReason): Push {
  return { types: new Set(), version: 1, eventTime, reasons: new Set([reason]) };
}

describe('a view', () => {
  it('has a session while some placement has it', () => {
    const { state } = newView();
    const session = { caller: 'shop' };
    const [one, two] = [
      state.ensurePlacement(DEFAULT_PLACEMENT),
      state.ensurePlacement({ ...DEFAULT_PLACEMENT, network: 'n' }),
    ];
    for (const placed of [one, two]) state.enter(placed, session);
    assert.ok(state.leave(one, session));
    assert.ok(state.sessions.has(session));
    assert.ok(!state.leave(one, session));
    assert.ok(state.leave(two, session));
    assert.equal(state.sessions.size, 0);
  });

  it('is dirty since the earliest event, in whatever order changes arrive', async () => {
    const { state, commit } = newView();
    state.request(['cds'], pushOf(5, 'proxy'));
    state.markDirty({ cds: 'all' }, pushOf(3, 'config'));
    state.markDirty({ cds: 'all' }, pushOf(9, 'config'));
    const { push } = await commit();
    assert.deepEqual([push?.eventTime, [...(push?.reasons ?? [])]], [3, ['proxy', 'config']]);
  });

  it('returns the same job with newly dirty units when it is taken again', () => {
    const { state } = newView();
    state.request(['cds'], pushOf(1, 'proxy'));
    assert.deepEqual(state.takeJob().units, { cds: 'all' });
    state.request(['lds'], pushOf(2, 'proxy'));
    assert.deepEqual(state.takeJob().units, { cds: 'all', lds: 'all' });
  });

  it('keeps what was committed when a job fails, and serves nothing before the first commit', async () => {
    const { state, commit } = newView();
    state.request(['cds'], pushOf(1, 'proxy'));
    state.begin();
    state.takeJob();
    state.abandon(new Error('broken'));
    assert.deepEqual([state.built, state.isDirty, state.inFlight], [false, true, false]);
    await commit();
    state.markDirty({ cds: new Set(['x']) }, pushOf(2, 'config'));
    state.begin();
    state.takeJob();
    state.abandon(new Error('broken'));
    assert.deepEqual([state.built, state.isDirty, state.inFlight], [true, true, false]);
    assert.deepEqual(state.takeJob().units, { cds: ['x'] });
  });

  it('is whole at the last version without failed units', async () => {
    const { state, commit } = newView();
    state.request(['cds'], pushOf(1, 'proxy'));
    await commit((job) => ({ ...job, version: 6 }));
    assert.deepEqual([state.isComplete, state.completeVersion], [true, 6]);
    state.markDirty({ cds: new Set(['x']) }, pushOf(2, 'config'));
    const message = 'broken';
    await commit((job) => {
      const { answer } = job;
      return { ...job, version: 7, answer: { ...answer, failures: [{ type: 'cds', unit: 'x', message, reads: -1 }] } };
    });
    assert.deepEqual([state.isComplete, state.committedVersion, state.completeVersion], [false, 7, 6]);
    state.markDirty({ cds: 'all' }, pushOf(3, 'config'));
    await commit((job) => ({ ...job, version: 8 }));
    assert.deepEqual([state.isComplete, state.completeVersion], [true, 8]);
  });
});
