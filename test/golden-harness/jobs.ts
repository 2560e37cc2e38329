/** Everything that is generated for the proxies of a random mesh, in a form that can be compared. */
import assert from 'node:assert/strict';
import { compareText } from '../../src/model/index.ts';
import type { Snapshot } from '../../src/model/types/types.ts';
import type { GenerateJob, JobAnswer } from '../../src/push/protocol.ts';
import { placementKey, placementOf, viewKey, viewsOf } from '../../src/push/proxies/proxy-views.ts';
import { NODES } from './random-mesh.ts';

const EVERYTHING = { cds: 'all', sds: 'all', ecds: 'all', lds: 'all', rds: 'all', vhds: 'all', nds: 'all' } as const;

/** Jobs that generate all units of every view. */
export function jobsOf(snapshot: Snapshot): GenerateJob[] {
  const views = NODES.flatMap((node) => viewsOf(snapshot, node));
  const places = NODES.map((node) => placementOf(snapshot, node));
  const placements = [...new Map(places.map((placement) => [placementKey(placement), placement])).values()];
  return [...new Map(views.map((view) => [viewKey(view), view]))].map(([key, view]) => {
    return { viewKey: key, view, units: EVERYTHING, placements };
  });
}

interface Made {
  readonly name: string;
  readonly version: string;
  readonly refs: readonly string[];
  readonly bytes: string;
}

/**
 * The results of jobs, unit by unit. A unit that is the same object for several views is listed once and referred to by
 * name after that; one that differs little from another view's is a difference from that.
 */
export function made({ jobs, bytes }: { readonly jobs: readonly JobAnswer[]; readonly bytes: ArrayBuffer }): unknown {
  const told = new Map<number, readonly Made[]>();
  return jobs.map(({ viewKey: key, gone, units, findings, failures }) => ({
    key,
    gone,
    findings,
    failures,
    // Placements with the same resources are together only where a memo made these once.
    units: units
      .flatMap(({ type, unit, placements = [undefined], number, resources, base }) => {
        const own = resources?.map(({ name, version, refs, offset, length }) => {
          return { name, version, refs, bytes: Buffer.from(bytes, offset, length).toString('base64') };
        });
        const whole = own && base ? patched(told.get(base.number), own, base.gone) : own;
        if (whole !== undefined) told.set(number, whole);
        return placements.map((placement) => ({ type, unit, placement, resources: sorted(told.get(number)) }));
      })
      .sort((a, b) => compareText(placeOf(a), placeOf(b))),
  }));
}

function patched(from: readonly Made[] | undefined, news: readonly Made[], gone: readonly string[]): readonly Made[] {
  assert.ok(from !== undefined, 'a unit differs from one that was not sent');
  const replaced = new Set([...gone, ...news.map(({ name }) => name)]);
  return [...from.filter(({ name }) => !replaced.has(name)), ...news];
}

/** In the order in which proxies get them. */
function sorted(resources: readonly Made[] | undefined): readonly Made[] | undefined {
  return resources?.toSorted((a, b) => compareText(a.name, b.name));
}

function placeOf({ type, unit, placement }: { type: string; unit: string; placement: number | undefined }): string {
  return JSON.stringify([type, unit, placement ?? -1]);
}
