/** Which of two answers decides about the health of an instance, and what stays after a loss. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Check, checkOf, registrationOf } from './answers.ts';
import { Catalogue } from './catalogue.ts';

function catalogue(): Catalogue {
  const made = new Catalogue({ holdMs: 1000, maxServices: 10, maxInstances: 10, now: () => 0 });
  assert.deepEqual(made.takeNames(new Map([['web', '']])).toRead, ['web']);
  return made;
}

function registration(status: string, n = 1) {
  const found = registrationOf({
    Node: { Node: 'n', Address: `10.0.0.${n}` },
    Service: { ID: `web-${n}`, Port: 80 },
    Checks: [{ Node: 'n', Status: status }],
  });
  assert.ok(typeof found === 'object');
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

test('after a loss, only what was read before it stays: what the registry has confirmed since is removed as always', () => {
  const made = catalogue();
  const names = new Map(['web', 'db', 'api'].map((name) => [name, '']));
  const idsOf = (name: string) => made.instancesOf(name).map(({ id }) => id);
  made.takeNames(names);
  made.takeService('web', [...registration('passing', 1), ...registration('passing', 2)], 10);
  made.takeService('db', registration('passing', 3), 10);
  made.takeService('api', registration('passing', 4), 10);
  made.reset();
  made.takeService('web', [...registration('passing', 2), ...registration('passing', 5)], 2);
  assert.deepEqual(idsOf('web'), ['web-1', 'web-2', 'web-5']);
  assert.deepEqual(made.takeService('web', registration('passing', 5), 3)?.changed, ['web']);
  assert.deepEqual(idsOf('web'), ['web-1', 'web-5'], 'web-2 was there after the loss');
  made.takeService('db', registration('passing', 3), 4);
  assert.deepEqual(made.takeNames(new Map([['web', '']])).changed, ['db']);
  assert.deepEqual([idsOf('db'), idsOf('api')], [[], ['web-4']], 'a service that was not read after the loss stays');
  made.reset();
  made.takeService('web', registration('passing', 6), 1);
  assert.deepEqual(idsOf('web'), ['web-1', 'web-5', 'web-6'], 'a second loss');
});
