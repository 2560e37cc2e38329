/** The names of webhook configurations: placeholders, revisions, and what cannot be a name. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import { configurationName } from './names.ts';

const DEFAULT = `meshd-${'$'}{namespace}`;
const name = (value: string, revision = '', namespace = 'mesh-system') =>
  configurationName('VALIDATION_WEBHOOK_CONFIG_NAME', { value, defaultValue: DEFAULT }, { namespace, revision });

test('the default has the namespace in it, and the revision at its end', () => {
  assert.equal(name(DEFAULT), 'meshd-mesh-system');
  assert.equal(name(DEFAULT, 'default'), 'meshd-mesh-system');
  assert.equal(name(DEFAULT, 'canary'), 'meshd-mesh-system-canary');
});

test('a name that the operator chose has the revision only where it asks for it', () => {
  assert.equal(name('mine', 'canary'), 'mine');
  assert.equal(name(`mine-${'$'}{revision}.${'$'}{namespace}`, 'canary'), 'mine-canary.mesh-system');
  assert.equal(name(`mine-${'$'}{revision}`), 'mine-default');
});

test('a value that cannot be the name of an object is refused with the variable', () => {
  for (const value of ['Mine', 'a/b', '-a', `${'$'}{nmespace}`, 'a'.repeat(254)])
    assert.throws(
      () => name(value),
      (error) => error instanceof CtlError && error.location.field === 'VALIDATION_WEBHOOK_CONFIG_NAME',
    );
});
