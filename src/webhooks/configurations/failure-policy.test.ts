/** The failure policy of validation in a scripted API server: when it becomes Fail, and by which check. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import type { Listed } from '../../kubernetes/testing/scripted-api-server.ts';
import { SELF_CHECK_NAME } from './self-check.ts';
import {
  answerCheck,
  CHECKS,
  closeAll,
  cluster,
  FAILING,
  NAMES,
  REFUSED,
  UNREACHED,
  VALIDATING,
  webhook,
} from './testing/scripted-cluster.ts';

afterEach(closeAll);

describe('the failure policy of validation', () => {
  test('becomes Fail only when the API server reaches the webhook', async () => {
    const it = await cluster();
    it.set(VALIDATING, webhook('check'));
    it.control.check = UNREACHED;
    it.lead();
    await it.until(() => it.checks().length > 6);
    assert.deepEqual(it.policies(), ['Ignore']);
    assert.equal(
      it.find(
        /cannot confirm that the API server reaches the validation webhook: failurePolicy stays Ignore: the API server does not reach/,
      ).length,
      1,
    );
    it.control.check = REFUSED;
    await it.until(() => it.policies().join() === 'Fail');
    assert.equal(it.find(/(?<!confirm that )the API server reaches the validation/).length, 1);
  });

  test('is checked by a dry run that stores nothing', async () => {
    const it = await cluster();
    it.set(VALIDATING, webhook('check'));
    it.lead();
    await it.until(() => it.policies().join() === 'Fail');
    assert.ok(it.checks().every(({ query }) => query.get('dryRun') === 'All'));
    const { metadata } = JSON.parse(it.checks()[0]?.body ?? '') as Listed;
    assert.deepEqual(metadata, { name: SELF_CHECK_NAME, namespace: 'mesh-system', labels: {} });
  });

  test('is not confirmed by a refusal from something other than the webhook', async () => {
    const it = await cluster();
    it.set(VALIDATING, webhook('check'));
    for (const answer of [
      [403, 'gateways.networking.mesh.io is forbidden'],
      [422, 'Gateway "mesh-validation-self-check" is invalid: spec: too bad'],
      [400, 'admission webhook "somebody" denied the request: no'],
    ] as const) {
      it.control.check = answer;
      const before = it.checks().length;
      if (before === 0) it.lead();
      await it.until(() => it.checks().length > before + 1);
      assert.deepEqual(it.policies(), ['Ignore']);
    }
  });

  test('is proved with the kinds of Istio where the cluster has only those', async () => {
    const it = await cluster();
    it.set(VALIDATING, webhook('check'));
    const { intercept } = it.server;
    it.server.intercept = (request, stream) => {
      if (request.path === CHECKS) return it.server.fail(stream, 404, 'NotFound');
      if (request.method !== 'POST') return intercept(request, stream);
      assert.equal(request.path, CHECKS.replace('mesh.io', 'istio.io'));
      return answerCheck(it.server, stream, REFUSED);
    };
    it.lead();
    await it.until(() => it.policies().join() === 'Fail');
  });

  test('stays Fail while the control plane is unavailable, and the log says that edits are refused', async () => {
    const it = await cluster();
    it.set(VALIDATING, webhook('check'));
    const configurations = it.lead();
    await it.until(() => it.policies().join() === 'Fail');
    it.control.check = FAILING;
    it.rotate('TWO');
    configurations.bundleChanged();
    await it.until(() => it.find(/no edits of mesh resources are accepted: .*connection refused/).length === 1);
    assert.deepEqual([it.policies(), it.bundles(VALIDATING)], [['Fail'], ['TWO']]);
    it.control.check = REFUSED;
    await it.until(() => it.find(/(?<!confirm that )the API server reaches the validation/).length === 1);
  });

  test('that somebody opened is closed again only after another check', async () => {
    const it = await cluster();
    it.set(VALIDATING, webhook('check'));
    it.lead();
    await it.until(() => it.policies().join() === 'Fail');
    it.control.check = UNREACHED;
    it.set(VALIDATING, webhook('check', 'meshd', 'Ignore', 'ONE'));
    const before = it.checks().length;
    await it.until(() => it.checks().length > before + 2);
    assert.deepEqual(it.policies(), ['Ignore']);
    it.control.check = REFUSED;
    await it.until(() => it.policies().join() === 'Fail');
  });

  test('is left to the operator by an annotation', async () => {
    const it = await cluster();
    const metadata = { name: NAMES.validation, annotations: { 'mesh.io/failure-policy': 'Ignore' } };
    it.server.set(VALIDATING, { metadata, webhooks: [webhook('check')] });
    it.lead();
    await it.until(() => it.bundles(VALIDATING).join() === 'ONE' && it.checks().length === 1);
    it.set(VALIDATING, webhook('check', 'meshd', 'Ignore', 'ONE'));
    await it.until(() => it.policies().join() === 'Fail');
    assert.equal(it.patches().length, 2);
  });

  test('is checked again with each bundle', async () => {
    const it = await cluster();
    it.set(VALIDATING, webhook('check'));
    const configurations = it.lead();
    await it.until(() => it.policies().join() === 'Fail' && it.checks().length === 1);
    it.rotate('TWO');
    configurations.bundleChanged();
    await it.until(() => it.checks().length === 2);
    assert.deepEqual(it.bundles(VALIDATING), ['TWO']);
  });
});
