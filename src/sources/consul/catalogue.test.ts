/** Which of two answers decides about the health of an instance: the one with the higher index. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Check, checkOf, registrationOf } from './answers.ts';
import { Catalogue } from './catalogue.ts';

function catalogue(): Catalogue {
  const made = new Catalogue({ holdMs: 1000, maxServices: 10, maxInstances: 10, now: () => 0 });
  assert.deepEqual(made.takeNames(new Map([['web', '']])).toRead, ['web']);
  return made;
}

function registration(status: string) {
  const found = registrationOf({
    Node: { Node: 'n', Address: '10.0.0.1' },
    Service: { ID: 'web-1', Port: 80 },
    Checks: [{ Node: 'n', Status: status }],
  });
  assert.ok(found !== undefined);
  return [found];
}

const critical = [checkOf({ Node: 'n', ServiceID: 'web-1', ServiceName: 'web', Status: 'critical' }) as Check];
const statusOf = (of: Catalogue) => of.instancesOf('web')[0]?.status;

test('the answer about a service decides until a list of checks has its index', () => {
  const made = catalogue();
  made.takeStates('critical', [], 5);
  made.takeStates('warning', [], 5);
  made.takeService('web', registration('critical'), 12);
  assert.equal(statusOf(made), 'critical');
  // The check has passed at 13: the list, which has not changed, says so by its index alone.
  const { toRead, changed } = made.takeStates('critical', [], 13);
  assert.deepEqual([toRead, changed], [['web'], []], 'it may have been removed as well');
  made.takeService('web', registration('passing'), 13);
  assert.equal(statusOf(made), 'passing');
});

test('an older answer about a service does not end what a newer list of checks says', () => {
  const made = catalogue();
  made.takeService('web', registration('passing'), 10);
  made.takeStates('critical', critical, 20);
  assert.equal(statusOf(made), 'critical');
  made.takeService('web', registration('passing'), 15);
  assert.equal(statusOf(made), 'critical');
});

test('after the index started again, what was known stays until it is read again', () => {
  const made = catalogue();
  made.takeService('web', registration('passing'), 10);
  made.takeStates('critical', critical, 20);
  assert.deepEqual(made.reset().toRead, ['web']);
  assert.deepEqual(made.takeStates('critical', [], 2).changed, []);
  made.takeNames(new Map());
  assert.deepEqual([statusOf(made), made.held], ['critical', 1]);
  made.takeNames(new Map([['web', '']]));
  made.takeService('web', registration('passing'), 2);
  assert.equal(statusOf(made), 'passing');
  made.settle();
  assert.equal(made.heldUntil, undefined);
});
