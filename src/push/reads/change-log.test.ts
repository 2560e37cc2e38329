import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ChangeLog, type LoggedChange } from './change-log.ts';

const change = (version: number): LoggedChange => {
  const changed = { everything: false, meshWide: new Map(), scopes: new Map() };
  return { changed, push: { types: new Set(), version, eventTime: version, reasons: new Set(['config']) } };
};
const versions = (log: ChangeLog<string>, after: number) => log.after(after).map(({ push }) => push.version);

describe('change log', () => {
  it('keeps the changes since the oldest running job was submitted', () => {
    const log = new ChangeLog<string>();
    log.add(change(2));
    log.begin('a', 2);
    log.add(change(3));
    log.begin('b', 3);
    log.add(change(4));
    assert.deepEqual([versions(log, 2), versions(log, 3)], [[3, 4], [4]]);
    log.end('a');
    assert.deepEqual(versions(log, 0), [4]);
    log.end('b');
    assert.deepEqual(versions(log, 0), []);
  });

  it('reports that everything changed when it could not keep all changes', () => {
    const log = new ChangeLog<string>();
    log.begin('hangs', 1);
    for (let version = 2; version < 3000; version++) log.add(change(version));
    const kept = log.after(1);
    assert.ok(kept.length <= 1024);
    assert.deepEqual(
      [kept[0]?.changed.everything, kept[0]?.push.eventTime, kept.at(-1)?.push.version],
      [true, 2, 2999],
    );
    assert.equal(
      log.after(2990).some(({ changed }) => changed.everything),
      false,
    );
  });
});
