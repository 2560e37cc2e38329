/** Which of two answers decides about the health of an instance, and what stays after a loss. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Check, checkOf, registrationOf } from './answers.ts';
import { Catalogue, type CatalogueOptions, type Consequences } from './catalogue.ts';

function catalogue(limits: Partial<CatalogueOptions> = {}): Catalogue {
  const most = { maxServices: 10, maxInstances: 10, maxBytes: 100_000, maxServiceBytes: 50_000, ...limits };
  const made = new Catalogue({ holdMs: 1000, ...most, now: () => 0 });
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
  assert.deepEqual((made.takeService('web', registration('passing', 5), 3) as Consequences).changed, ['web']);
  assert.deepEqual(idsOf('web'), ['web-1', 'web-5'], 'web-2 was there after the loss');
  made.takeService('db', registration('passing', 3), 4);
  assert.deepEqual(made.takeNames(new Map([['web', '']])).changed, ['db']);
  assert.deepEqual([idsOf('db'), idsOf('api')], [[], ['web-4']], 'a service that was not read after the loss stays');
  made.reset();
  made.takeService('web', registration('passing', 6), 1);
  assert.deepEqual(idsOf('web'), ['web-1', 'web-5', 'web-6'], 'a second loss');
});

test('instances that need too much memory are not taken, and those of before stay', () => {
  const made = catalogue({ maxInstances: 100, maxBytes: 30_000, maxServiceBytes: 20_000 });
  made.takeNames(new Map(['web', 'db', 'api'].map((name) => [name, ''])));
  const some = (count: number) =>
    Array.from({ length: count }, (_, n) => registration('passing', n)[0] ?? assert.fail());
  const countOf = (name: string) => made.instancesOf(name).length;
  made.takeService('web', some(2), 10);
  assert.equal(made.takeService('web', some(40), 11), 'maxServiceBytes');
  assert.equal(countOf('web'), 2);
  made.takeService('db', some(20), 12);
  assert.equal(made.takeService('api', some(20), 13), 'maxBytes');
  assert.deepEqual([countOf('db'), countOf('api')], [20, 0]);
  // What another service no longer needs can be used.
  made.takeService('db', some(1), 14);
  assert.equal(typeof made.takeService('api', some(20), 15), 'object');
  assert.equal(countOf('api'), 20);
});

test('instances that stay after losses count', () => {
  const made = catalogue();
  let taken = 0;
  for (let round = 0; round < 20; round++) {
    made.reset();
    const found = made.takeService('web', registration('passing', round), 1);
    if (typeof found === 'object') taken++;
    else assert.equal(found, 'maxInstances');
  }
  assert.deepEqual([taken, made.instancesOf('web').length], [10, 10]);
});
