/** The webhook configurations in a scripted API server: what is written, repaired, and left alone. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { closeAll, cluster, MUTATING, NAMES, VALIDATING, webhook } from './testing/scripted-cluster.ts';

afterEach(closeAll);

describe('the webhook configurations', () => {
  test('get the CA bundle in the webhooks that lead to the control plane, and in no others', async () => {
    const it = await cluster();
    it.set(MUTATING, webhook('a'), webhook('others', 'elsewhere', 'Fail', 'THEIRS'), webhook('b', 'meshd', 'Fail'));
    it.set(VALIDATING, webhook('check'));
    it.lead();
    await it.until(() => it.bundles(MUTATING).join() === 'ONE,THEIRS,ONE' && it.bundles(VALIDATING).join() === 'ONE');
    assert.equal(it.patches().filter(({ path }) => path.startsWith(MUTATING)).length, 1);
  });

  test('are not written where they are current', async () => {
    const it = await cluster();
    it.set(MUTATING, webhook('a', 'meshd', 'Fail', 'ONE'));
    it.set(VALIDATING, webhook('check', 'meshd', 'Fail', 'ONE'));
    it.lead();
    await it.until(() => it.checks().length === 1 && it.server.watches(MUTATING) > 0);
    it.set(MUTATING, webhook('a', 'meshd', 'Fail', 'OTHER'));
    await it.until(() => it.bundles(MUTATING).join() === 'ONE');
    assert.equal(it.patches().length, 1);
  });

  test('follow the bundle, and are repaired when others change them', async () => {
    const it = await cluster();
    it.set(MUTATING, webhook('a'));
    it.set(VALIDATING, webhook('check'));
    const configurations = it.lead();
    await it.until(() => it.bundles(MUTATING).join() === 'ONE' && it.policies().join() === 'Fail');
    it.rotate('ONE TWO');
    configurations.bundleChanged();
    await it.until(() => [...it.bundles(MUTATING), ...it.bundles(VALIDATING)].every((each) => each === 'ONE TWO'));
    it.set(MUTATING, webhook('a', 'meshd', 'Ignore', 'FORGED'), webhook('new'));
    it.set(VALIDATING, webhook('check', 'meshd', 'Ignore', 'FORGED'));
    await it.until(() => it.bundles(MUTATING).join() === 'ONE TWO,ONE TWO' && it.policies().join() === 'Fail');
    assert.deepEqual(it.bundles(VALIDATING), ['ONE TWO']);
  });

  test('are left alone without a bundle of its own', async () => {
    const it = await cluster();
    it.rotate(undefined);
    it.set(MUTATING, webhook('a', 'meshd', 'Fail', 'OPERATOR'));
    it.set(VALIDATING, webhook('check', 'meshd', 'Ignore', 'OPERATOR'));
    it.lead();
    await it.until(() => it.policies().join() === 'Fail');
    assert.deepEqual([...it.bundles(MUTATING), ...it.bundles(VALIDATING)], ['OPERATOR', 'OPERATOR']);
  });

  test('are picked up when they are created, and their deletion is reported', async () => {
    const it = await cluster();
    it.lead();
    await it.until(() => it.find(/does not exist/).length === 2);
    it.set(VALIDATING, webhook('check'));
    it.set(MUTATING, webhook('a'));
    await it.until(() => it.bundles(MUTATING).join() === 'ONE' && it.policies().join() === 'Fail');
    it.server.remove(VALIDATING, { name: NAMES.validation });
    it.server.remove(MUTATING, { name: NAMES.injection });
    await it.until(() => it.find(/was deleted/).length === 2);
    assert.equal(it.counts.deleted, 1);
    it.set(VALIDATING, webhook('check'));
    await it.until(() => it.policies().join() === 'Fail');
  });

  test('without a webhook of this control plane are left alone, with one line', async () => {
    const it = await cluster();
    it.set(MUTATING, webhook('a', 'meshd-canary'));
    it.set(VALIDATING, webhook('check'));
    it.lead();
    await it.until(() => it.policies().join() === 'Fail');
    it.set(MUTATING, webhook('a', 'meshd-canary'), webhook('b', 'meshd-canary'));
    it.set(MUTATING, webhook('a'));
    await it.until(() => it.bundles(MUTATING).join() === 'ONE');
    assert.equal(it.find(/has no webhook that calls meshd\.mesh-system\.svc/).length, 1, it.lines.join('\n'));
  });

  test('are written with the version that was read: a change in between is not overwritten', async () => {
    const it = await cluster();
    it.set(MUTATING, webhook('a'));
    it.set(VALIDATING, webhook('check', 'meshd', 'Fail', 'ONE'));
    let raced = false;
    it.control.refuse = ({ method, path }) => {
      if (method !== 'PATCH' || raced || !path.startsWith(MUTATING)) return undefined;
      raced = true;
      it.set(MUTATING, webhook('theirs', 'elsewhere', 'Fail', 'THEIRS'), webhook('a'));
      return undefined;
    };
    it.lead();
    await it.until(() => it.bundles(MUTATING).join() === 'THEIRS,ONE');
    assert.deepEqual(it.find(/cannot be updated/), []);
  });

  test('are not fought for with another program', async () => {
    const it = await cluster();
    it.set(VALIDATING, webhook('check', 'meshd', 'Fail', 'ONE'));
    it.set(MUTATING, webhook('a'));
    let fighting = true;
    it.control.patched = () => {
      if (fighting) queueMicrotask(() => it.set(MUTATING, webhook('a', 'meshd', 'Fail', 'THEIRS')));
    };
    let now = 0;
    it.lead(() => now);
    await it.until(() => it.patches().length === 5);
    // Each of these changes is one that it would repair.
    for (let edits = 0; edits < 20; edits++) it.set(MUTATING, webhook('a', 'meshd', 'Fail', `THEIRS ${edits}`));
    it.server.remove(VALIDATING, { name: NAMES.validation });
    await it.until(() => it.counts.deleted === 1);
    assert.equal(it.patches().length, 5);
    fighting = false;
    now = 60_000;
    await it.until(() => it.bundles(MUTATING).join() === 'ONE');
    assert.equal(it.patches().length, 6);
  });

  test('follow the bundle at once, even after many repairs', async () => {
    const it = await cluster();
    it.set(VALIDATING, webhook('check', 'meshd', 'Fail', 'ONE'));
    it.set(MUTATING, webhook('a', 'meshd', 'Fail', 'ONE'));
    const configurations = it.lead(() => 0);
    await it.until(() => it.checks().length === 1 && it.server.watches(MUTATING) > 0);
    for (let repairs = 1; repairs <= 5; repairs++) {
      it.set(MUTATING, webhook('a', 'meshd', 'Fail', 'THEIRS'));
      await it.until(() => it.bundles(MUTATING).join() === 'ONE');
    }
    it.rotate('TWO');
    configurations.bundleChanged();
    await it.until(() => it.bundles(MUTATING).join() === 'TWO');
  });

  test('that may not be written are one line in the log, and are written once that is allowed', async () => {
    const it = await cluster();
    it.set(MUTATING, webhook('a', 'meshd', 'Fail', 'ONE'));
    it.set(VALIDATING, webhook('check'));
    it.control.refuse = ({ method }) => (method === 'PATCH' ? [403, 'Forbidden'] : undefined);
    it.lead();
    await it.until(() => it.counts.updateFailed >= 4);
    assert.equal(it.find(/meshd-mesh-system cannot be updated: HTTP 403 Forbidden/).length, 1, it.lines.join('\n'));
    it.control.refuse = () => undefined;
    await it.until(() => it.policies().join() === 'Fail');
    assert.equal(it.find(/can be updated again/).length, 1);
    await it.until(() => it.counts.updated === 2);
  });

  test('that may not be read are one line each in the log', async () => {
    const it = await cluster();
    it.set(MUTATING, webhook('a'));
    it.set(VALIDATING, webhook('check'));
    it.control.refuse = ({ method }) => (method === 'GET' ? [403, 'Forbidden'] : undefined);
    it.lead();
    await it.until(() => it.counts.loadFailed >= 4);
    assert.equal(it.lines.length, 2, it.lines.join('\n'));
    assert.equal(it.find(/cannot be read and is not kept up to date: HTTP 403 Forbidden/).length, 2);
    it.control.refuse = () => undefined;
    await it.until(() => it.policies().join() === 'Fail');
    assert.ok(it.counts.loaded >= 1);
  });
});
