/** What the Helm charts of `deploy/charts` allow the control plane and gateways to do. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type ApiObject, helmUnavailable, renderChart } from '../harness/kubernetes/index.ts';
import { objectsOf, ofKind } from './support/chart-objects.ts';

const withoutHelm = helmUnavailable() ?? false;

const DEPLOY = join(import.meta.dirname, '../../deploy');
const SYSTEM = 'mesh-system';

test('with all options the chart gives the permissions of deploy/rbac.yaml', { skip: withoutHelm }, async (t) => {
  const enabled = { enabled: true };
  const statuses = { reconciled: true, analysis: true };
  const values = { gatewayApi: enabled, remoteClusters: enabled, workloadRegistration: enabled, statuses };
  const chart = objectsOf(await renderChart(t, { chart: 'ctl-discovery', namespace: SYSTEM, values }));
  const plain = objectsOf(readFileSync(join(DEPLOY, 'rbac.yaml'), 'utf8'));
  const rules = (objects: readonly ApiObject[], kind: string) =>
    objects.filter((object) => object.kind === kind).map((object) => object.rules);
  for (const kind of ['ClusterRole', 'Role']) assert.deepEqual(rules(chart, kind), rules(plain, kind), kind);
});

test('a gateway has the right to Secrets, and a token, unless it does not read them', {
  skip: withoutHelm,
}, async (t) => {
  const objects = async (values: object) =>
    objectsOf(await renderChart(t, { chart: 'gateway', namespace: SYSTEM, values }));
  const mounts = (all: readonly ApiObject[]) => {
    const { template } = ofKind(all, 'Deployment').spec as { template: { spec: object } };
    return JSON.stringify(template.spec).includes('"automountServiceAccountToken":true');
  };
  const [plain, reading] = [await objects({ readSecrets: false }), await objects({})];
  assert.ok(!plain.some(({ kind }) => kind === 'Role' || kind === 'RoleBinding'));
  const rule = { apiGroups: [''], resources: ['secrets'], verbs: ['list', 'watch'] };
  assert.deepEqual(ofKind(reading, 'Role').rules, [rule]);
  assert.equal(ofKind(reading, 'RoleBinding').metadata.namespace, SYSTEM);
  assert.deepEqual([mounts(plain), mounts(reading)], [false, true]);
});

test('the control plane may let gateways of the Gateway API read Secrets, and do nothing else with roles', {
  skip: withoutHelm,
}, async (t) => {
  const render = async (values: object) =>
    objectsOf(await renderChart(t, { chart: 'ctl-discovery', namespace: 'mesh-two', values }));
  const rolesOf = (objects: readonly ApiObject[]) => {
    const rules = objects.filter(({ kind }) => kind === 'ClusterRole').flatMap((role) => role.rules as object[]);
    return rules.filter((rule) => /secrets|roles|rolebindings/.test(JSON.stringify(rule)));
  };
  for (const gatewayApi of [{ enabled: false }, { enabled: true, readSecrets: false }])
    assert.deepEqual(rolesOf(await render({ gatewayApi })), []);
  const objects = await render({ revision: 'canary', gatewayApi: { enabled: true } });
  const group = { apiGroups: ['rbac.authorization.k8s.io'] };
  const role = 'ctl-discovery-canary-mesh-two-gateway-secrets';
  assert.deepEqual(rolesOf(objects), [
    { ...group, resources: ['rolebindings'], verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'] },
    { ...group, resources: ['clusterroles'], resourceNames: [role], verbs: ['bind'] },
    { apiGroups: [''], resources: ['secrets'], verbs: ['list', 'watch'] },
  ]);
  assert.match(
    JSON.stringify(ofKind(objects, 'Deployment').spec),
    new RegExp(`"GATEWAY_SECRETS_ROLE","value":"${role}"`),
  );
  assert.ok(objects.some(({ kind, metadata }) => kind === 'ClusterRole' && metadata.name === role));
  // No account is bound to it by the chart.
  const bindings = objects.filter(({ kind }) => kind === 'ClusterRoleBinding' || kind === 'RoleBinding');
  assert.ok(bindings.every(({ roleRef }) => (roleRef as { name: string }).name !== role));
});

test('a revision may read and write the objects of its own names', { skip: withoutHelm }, async (t) => {
  const values = { revision: 'canary' };
  const objects = objectsOf(await renderChart(t, { chart: 'ctl-discovery', namespace: 'mesh-two', values }));
  const allowed = (kind: string, resource: string) =>
    (ofKind(objects, kind).rules as readonly { resources: string[]; resourceNames?: string[] }[])
      .filter(({ resources }) => resources.includes(resource))
      .flatMap(({ resourceNames = [] }) => resourceNames)
      .sort();
  const named = (kind: string) =>
    objects
      .filter((object) => object.kind === kind)
      .map(({ metadata }) => metadata.name)
      .sort();
  // The control plane creates this one itself.
  const made = 'meshd-learned-hosts-canary';
  assert.deepEqual(allowed('Role', 'configmaps'), [...named('ConfigMap'), made].sort());
  assert.deepEqual(named('ConfigMap'), ['mesh-sidecar-injector-canary', 'meshd-canary']);
  const mutating = named('MutatingWebhookConfiguration');
  assert.deepEqual(allowed('ClusterRole', 'mutatingwebhookconfigurations'), mutating);
  const validating = named('ValidatingWebhookConfiguration');
  assert.deepEqual(allowed('ClusterRole', 'validatingwebhookconfigurations'), validating);
  // These are the defaults of the control plane.
  assert.deepEqual([mutating, validating], [['mesh-sidecar-injector-canary'], ['meshd-mesh-two-canary']]);
});

test('Secrets and ConfigMaps of all namespaces are readable by name only', { skip: withoutHelm }, async (t) => {
  const namesWith = async (values: object) => {
    const objects = objectsOf(await renderChart(t, { chart: 'ctl-discovery', namespace: SYSTEM, values }));
    const rules = ofKind(objects, 'ClusterRole').rules as readonly {
      resources: string[];
      resourceNames?: string[];
      verbs: string[];
    }[];
    const found = rules.filter(
      ({ resources, verbs }) => /secrets|configmaps/.test(resources.join()) && verbs.includes('list'),
    );
    return found.map(({ resources, resourceNames }) => [...resources, resourceNames]);
  };
  const roots = ['configmaps', ['mesh-ca-root-cert']];
  assert.deepEqual(await namesWith({ gatewayApi: { enabled: true } }), [roots]);
  const named = { credentialNames: ['pair'], gatewayApi: { enabled: true, authorityNames: ['authorities'] } };
  assert.deepEqual(await namesWith(named), [
    roots,
    ['secrets', ['pair', 'pair-cacert']],
    ['configmaps', ['authorities']],
  ]);
});
