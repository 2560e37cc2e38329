import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { byXdsType, type XdsType } from '../../core/xds-types.ts';
import { contentVersion, emptyBundle, encodeResource, nextBundle } from '../bundles/index.ts';
import type { EncodedResource } from '../types.ts';
import type { Bundles } from '../views/index.ts';
import { Gate, type GatedPlacement } from './gate.ts';
import { Trial } from './trial.ts';

type Contents = Partial<Record<XdsType, Readonly<Record<string, string>>>>;

function bundlesOf(contents: Contents): Bundles {
  return byXdsType((type) => {
    const resources = Object.entries(contents[type] ?? {}).map(([name, content]): [string, EncodedResource] => {
      const message = Buffer.from(content);
      return [name, encodeResource(type, name, contentVersion(message), message, [])];
    });
    return nextBundle(emptyBundle(type, 'view'), resources);
  });
}

function placement(contents: Contents): GatedPlacement<string> {
  return { initialized: true, bundles: bundlesOf(contents), held: undefined };
}

/** A gate after a trial in which the only canary rejected these, where placements had `before`, or else what they have. */
function gateAfter(placements: GatedPlacement<string>[], before: readonly Contents[], rejected: readonly string[]) {
  const gate = new Gate<GatedPlacement<string>, string>(() => placements);
  const had = new Map(
    placements.map((placed, index) => {
      const had = before[index];
      return [placed, had === undefined ? placed.bundles : bundlesOf(had)] as const;
    }),
  );
  const items = gate.examine(had);
  const trial = new Trial<string>(new Set(items.keys()), 300);
  trial.add('canary', 'caller');
  gate.hold(had, { trial, items, version: 2, isNew: false });
  trial.answered('canary', (item) =>
    rejected.includes(items.get(item)?.name ?? '') ? { rejected: 'no good', certain: true } : 'accepted',
  );
  gate.settle(trial.outcome(1), 0, String);
  return gate;
}

describe('a new placement of a view from which something is withheld', () => {
  it('leaves the other placements as they are', () => {
    const placements = [placement({ cds: { web: 'bad' } }), placement({ cds: { web: 'elsewhere' } })];
    const gate = gateAfter(placements, [{ cds: { web: 'good' } }], ['web']);
    const added = placement({ cds: { web: 'bad' } });
    placements.push(added);
    gate.place([added]);
    assert.equal(placements[1]?.held, undefined);
    assert.equal(added.held?.shown.cds.get('web')?.version, contentVersion(Buffer.from('good')));
  });

  it('has what the accepted version refers to', () => {
    const placements = [placement({ cds: { new: 'new' }, rds: { 80: 'to new, bad' } })];
    const gate = gateAfter(placements, [{ cds: { old: 'old' }, rds: { 80: 'to old' } }], ['80']);
    const added = placement({ cds: { new: 'new' }, rds: { 80: 'to new, bad' } });
    placements.push(added);
    gate.place([added]);
    const [shown, other] = [added.held?.shown, placements[0]?.held?.shown];
    assert.ok(other?.cds.get('old') !== undefined);
    assert.ok(shown?.cds.get('old') !== undefined && shown.cds.get('new') !== undefined);
    assert.equal(shown.rds.get('80')?.version, other.rds.get('80')?.version);
  });
});
