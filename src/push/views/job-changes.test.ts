import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { GeneratedType } from '../../generate/types.ts';
import { Interner } from '../bundles/interner.ts';
import type { GeneratedJob } from '../jobs/generator.ts';
import { ReceivedUnits } from '../jobs/unit-numbers.ts';
import type { UnitAnswer } from '../protocol.ts';
import { NO_READS } from '../reads/read-numbers.ts';
import type { EncodedResource } from '../types.ts';
import { jobChanges, resourceChanges, type Units } from './job-changes.ts';

const interner = new Interner();

function resource(type: GeneratedType, name: string, version: string, refs: readonly string[] = []): EncodedResource {
  return interner.intern(type, name, version, refs, () => Buffer.from(name + version));
}

/** A unit as a worker sends it: resources as `name@version`, and the names that they refer to. */
interface SentUnit {
  readonly type: GeneratedType;
  readonly unit: string;
  readonly resources: readonly string[];
  readonly refs?: readonly string[];
  readonly base?: { readonly number: number; readonly gone: readonly string[] };
}

let numbers = 100;

function job(
  sent: readonly SentUnit[],
  more: Partial<GeneratedJob['answer']> = {},
  recalled = new Map(),
): GeneratedJob {
  const units = sent.map(({ type, unit, resources, refs = [], base }): UnitAnswer => {
    const slots = resources.map((text) => {
      const [name = '', version = ''] = text.split('@');
      return { name, version, refs, offset: 0, length: 0 };
    });
    return {
      type,
      unit,
      number: ++numbers,
      reads: NO_READS,
      resources: slots,
      ...(base === undefined ? {} : { base }),
    };
  });
  return {
    version: 2,
    bytes: new ArrayBuffer(0),
    milliseconds: 0,
    receivedUnits: new ReceivedUnits(),
    recalled,
    reads: [],
    answer: {
      viewKey: 'v',
      gone: false,
      units,
      milliseconds: {},
      complete: [],
      findings: [],
      failures: [],
      lists: {},
      ...more,
    },
  };
}

function unitsWith(units: Partial<Record<GeneratedType, Record<string, readonly EncodedResource[]>>>): Units {
  const of = (type: GeneratedType) => new Map(Object.entries(units[type] ?? {}));
  return {
    cds: of('cds'),
    sds: of('sds'),
    ecds: of('ecds'),
    lds: of('lds'),
    rds: of('rds'),
    vhds: of('vhds'),
    nds: of('nds'),
  };
}

const SERVED = unitsWith({
  lds: { 80: [resource('lds', '0.0.0.0_80', '1', ['80'])] },
  rds: { 80: [resource('rds', '80', '1', ['80'])] },
  vhds: { 80: [resource('vhds', '80/a', '1')] },
});

const LISTENER = { type: 'lds', unit: '80', resources: ['0.0.0.0_80@1'], refs: ['80'] } as const;
const ROUTES = { type: 'rds', unit: '80', resources: ['80@1'], refs: ['80'] } as const;
const HOSTS = { type: 'vhds', unit: '80', resources: ['80/a@1', '80/b@1'] } as const;

describe('what a job changes of virtual hosts', () => {
  it('is taken with routes and listener', () => {
    const { units, failures } = jobChanges(job([LISTENER, ROUTES, HOSTS]), unitsWith({}), [], interner);
    assert.deepEqual([units.lds.has('80'), units.rds.has('80'), units.vhds.get('80')?.length], [true, true, 2]);
    assert.deepEqual(failures, []);
  });

  it('withholds routes, and so the listener, when the virtual hosts could not be generated', () => {
    const { units, failures, withheld } = jobChanges(job([LISTENER, ROUTES]), unitsWith({}), [], interner);
    assert.deepEqual([units.lds.size, units.rds.size], [0, 0]);
    assert.deepEqual(
      failures.map(({ type, unit }) => [type, unit]),
      [
        ['rds', '80'],
        ['lds', '80'],
      ],
    );
    assert.deepEqual([...withheld], ['80']);
  });

  it('removes them with their routes, and keeps them with routes that a listener still refers to', () => {
    const complete = ['lds', 'rds', 'vhds'] as const;
    const all = jobChanges(job([], { complete }), SERVED, [], interner);
    assert.deepEqual([...all.units.vhds], [['80', undefined]]);
    const failed = { type: 'lds', unit: '80', message: 'no good', reads: NO_READS } as const;
    const kept = jobChanges(job([], { complete, failures: [failed] }), SERVED, [], interner);
    assert.deepEqual([kept.units.rds.size, kept.units.vhds.size], [0, 0]);
  });
});

describe('a unit that is sent as a difference', () => {
  const before = ['80/a', '80/b', '80/c'].map((name) => resource('vhds', name, '1'));
  const current = unitsWith({ rds: { 80: [resource('rds', '80', '1', ['80'])] }, vhds: { 80: before } });
  const sent = {
    type: 'vhds',
    unit: '80',
    resources: ['80/b@2', '80/d@1'],
    base: { number: 7, gone: ['80/c'] },
  } as const;

  it('is the one before with what differs, and nothing else is compared', () => {
    const made = jobChanges(job([sent], {}, new Map([[7, before]])), current, [], interner);
    const names = made.units.vhds.get('80')?.map(({ name, version }) => `${name}@${version}`);
    assert.deepEqual(names?.sort(), ['80/a@1', '80/b@2', '80/d@1']);
    const changes = resourceChanges(current.vhds, made.units.vhds);
    assert.deepEqual([...changes.keys()].sort(), ['80/b', '80/c', '80/d']);
    assert.equal(changes.get('80/c'), undefined);
  });

  it('is compared as a whole with a unit that it was not derived from', () => {
    const other = unitsWith({ vhds: { 80: [resource('vhds', '80/x', '1')] } });
    const made = jobChanges(job([sent], {}, new Map([[7, before]])), other, [], interner);
    const changes = resourceChanges(other.vhds, made.units.vhds);
    assert.deepEqual([...changes.keys()].sort(), ['80/a', '80/b', '80/d', '80/x']);
    assert.equal(changes.get('80/x'), undefined);
  });
});
