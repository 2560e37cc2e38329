import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Push } from '../push.ts';
import { sidecar } from '../testing/mesh.ts';
import { NOTHING_SHARED } from './parts.ts';
import { Session, type SessionHost } from './session.ts';

const changeAt = (eventTime: number, version: number): Push => {
  return { types: new Set(), eventTime, version, reasons: new Set(['config']) };
};

/** A session without views at 10 ms, and the calls to its host. */
function newSession() {
  const converged: number[] = [];
  const ended: (number | undefined)[] = [];
  const host: SessionHost = {
    version: 1,
    shared: NOTHING_SHARED,
    now: () => 10,
    request: () => {},
    need: () => {},
    answered: () => {},
    converged: (milliseconds) => converged.push(milliseconds),
    pushBegan: () => {},
    pushEnded: (_session, milliseconds) => ended.push(milliseconds),
    enter: () => {},
    leave: () => {},
    closed: () => {},
  };
  const of = { node: sidecar('10.5.0.1', 'shop'), caller: 'shop', connectionId: '1' };
  const session = new Session({ ...of, sink: { push: () => Promise.resolve('sent') } }, [], host);
  return { session, converged, ended };
}

describe('changes on their way to a proxy', () => {
  it('are measured from the earliest event, when the newest version is acknowledged', () => {
    const { session, converged } = newSession();
    for (const [eventTime, version] of [
      [7, 1],
      [3, 3],
      [9, 2],
    ] as const)
      session.changed(changeAt(eventTime, version));
    session.synced(2);
    assert.deepEqual(converged, []);
    session.synced(3);
    assert.deepEqual(converged, [7]);
  });

  it('end when nothing had to be sent, and wait for the acknowledgement when something was', () => {
    const none = newSession();
    none.session.changed(changeAt(3, 1));
    none.session.pushed('nothing', none.session.converging);
    assert.deepEqual([none.ended, none.session.converging], [[undefined], undefined]);
    const some = newSession();
    some.session.changed(changeAt(3, 1));
    some.session.pushed('sent', some.session.converging);
    some.session.pushed('nothing', some.session.converging);
    assert.deepEqual(some.ended, []);
    some.session.synced(1);
    assert.deepEqual([some.ended, some.converged], [[7], [7]]);
  });

  it('have begun to arrive when a part was sent: of a change, or of what a new proxy asks for', () => {
    const { session } = newSession();
    assert.equal(session.begun, false);
    session.pushed('deferred', session.converging);
    assert.equal(session.begun, false);
    session.pushed('sent', session.converging);
    assert.equal(session.begun, true, 'its next request');
    for (let pushes = 1; pushes < 16; pushes++) session.pushed('sent', session.converging);
    assert.equal(session.begun, false, 'it asks for more over and over');
    session.changed(changeAt(3, 1));
    assert.equal(session.begun, false, 'a change of which nothing was sent');
    session.pushed('sent', session.converging);
    assert.equal(session.begun, true);
  });
});
