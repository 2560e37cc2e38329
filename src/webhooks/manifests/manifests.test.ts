import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { CtlError } from '../../core/errors.ts';
import { SETTINGS } from '../injection/testing/settings.ts';
import { createInjector, injectManifests } from './index.ts';

const injector = createInjector({ ...SETTINGS, image: 'ctl-agent:1' });

const inject = (text: string) => injectManifests({ text, file: 'web.yaml', namespace: 'shop', injector });

/** Documents as other programs read them. */
const read = (text: string): unknown[] => {
  const documents = parseAllDocuments(text, { version: '1.1', merge: true });
  assert.ok(!('empty' in documents));
  return documents.map((document) => {
    assert.deepEqual(document.errors, []);
    return document.toJS();
  });
};

const containersOf = (document: unknown, ...path: string[]): string[] => {
  const spec = [...path, 'spec'].reduce<unknown>((at, step) => (at as Record<string, unknown>)[step], document);
  const { initContainers = [], containers } = spec as Record<string, { name: string }[]>;
  return [...initContainers, ...(containers ?? [])].map(({ name }) => name);
};

const SERVICE = `# the shop
apiVersion: v1
kind: Service
metadata: {name:   web}   # as it is
spec: {ports: [{port: 80}]}
`;
const DEPLOYMENT = `# web itself
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2 # two
  template:
    metadata:
      labels:
        app: web
    spec:
      # the application
      containers:
      - name: app # its name
        image: "web:1"
        env:
        - name: SWITCH
          value: "on"
`;

test('documents without Pods stay byte by byte, and others keep their comments', () => {
  const { text, notes } = inject(`${SERVICE}---\n${DEPLOYMENT}---\n${SERVICE}`);
  assert.deepEqual(notes, []);
  assert.ok(text.startsWith(`${SERVICE}---\n# web itself\n`));
  assert.ok(text.endsWith(`---\n${SERVICE}`));
  for (const line of ['# web itself', '  replicas: 2 # two', '      # the application', '- name: app # its name']) {
    assert.ok(text.includes(line), line);
  }
  const [, deployment] = read(text);
  assert.deepEqual(containersOf(deployment, 'spec', 'template'), ['mesh-init', 'mesh-proxy', 'app']);
  assert.ok(!text.includes('ownerReferences'));
  assert.match(text, /MESH_META_OWNER\n +value: kubernetes:\/\/apis\/apps\/v1\/namespaces\/shop\/deployments\/web\n/);
});

test('every kind that creates Pods is injected, in lists as well', () => {
  const template = { spec: { containers: [{ name: 'app', image: 'app:1' }] } };
  const workload = (apiVersion: string, kind: string) => ({
    apiVersion,
    kind,
    metadata: { name: 'w' },
    spec: { template },
  });
  const documents = [
    workload('apps/v1', 'Deployment'),
    workload('apps/v1', 'DaemonSet'),
    workload('apps/v1', 'StatefulSet'),
    workload('apps/v1', 'ReplicaSet'),
    workload('v1', 'ReplicationController'),
    workload('batch/v1', 'Job'),
  ];
  const cronJob = {
    apiVersion: 'batch/v1',
    kind: 'CronJob',
    metadata: { name: 'w' },
    spec: { jobTemplate: { spec: { template } } },
  };
  const older = ['batch/v1beta1', 'batch/v2alpha1'].map((apiVersion) => ({ ...cronJob, apiVersion }));
  const configs = ['apps.openshift.io/v1', 'v1'].map((apiVersion) => workload(apiVersion, 'DeploymentConfig'));
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, ...template };
  const list = { apiVersion: 'v1', kind: 'List', items: [...documents, cronJob, pod, ...older, ...configs] };
  const [result] = read(inject(JSON.stringify(list)).text) as [{ items: unknown[] }];
  const wanted = ['mesh-init', 'mesh-proxy', 'app'];
  for (const item of result.items.slice(0, 6)) assert.deepEqual(containersOf(item, 'spec', 'template'), wanted);
  assert.deepEqual(containersOf(result.items[6], 'spec', 'jobTemplate', 'spec', 'template'), wanted);
  assert.deepEqual(containersOf(result.items[7]), wanted);
  for (const item of result.items.slice(8, 10))
    assert.deepEqual(containersOf(item, 'spec', 'jobTemplate', 'spec', 'template'), wanted);
  for (const item of result.items.slice(10)) assert.deepEqual(containersOf(item, 'spec', 'template'), wanted);
  assert.equal(result.items.length, 12);
});

test('workloads of a List that share values by aliases are each injected once', () => {
  const item = (name: string, template: string) =>
    `- { apiVersion: apps/v1, kind: Deployment, metadata: { name: ${name} }, spec: { template: ${template} } }\n`;
  const template = '&t { metadata: { labels: &l { app: a } }, spec: { containers: [{ name: app, image: a }] } }';
  const text = `apiVersion: v1\nkind: List\nitems:\n${item('a', template)}${item('b', '*t')}`;
  const result = inject(text).text;
  const [{ items }] = read(result) as [{ items: { spec: object }[] }];
  for (const { spec } of items) {
    assert.deepEqual(containersOf(spec, 'template'), ['mesh-init', 'mesh-proxy', 'app']);
    assert.match(JSON.stringify(spec), /deployments\/[ab]"/);
  }
  assert.equal(inject(result).text, result);
});

test('JSON stays JSON', () => {
  const pod = { apiVersion: 'v1', kind: 'Pod', spec: { containers: [{ name: 'app', image: 'a' }] } };
  assert.deepEqual(containersOf(JSON.parse(inject(JSON.stringify(pod)).text)), ['mesh-init', 'mesh-proxy', 'app']);
});

test('aliases and merge keys of a document are not changed in two places', () => {
  const text = `
apiVersion: apps/v1
kind: Deployment
metadata: { name: web, labels: &labels { app: web } }
spec:
  selector: { matchLabels: *labels }
  template: { metadata: { labels: *labels }, spec: { containers: [{ name: app, image: a }] } }
`;
  const [{ metadata, spec }] = read(inject(text).text) as [{ metadata: object; spec: { selector: object } }];
  assert.deepEqual(metadata, { name: 'web', labels: { app: 'web' } });
  assert.deepEqual(spec.selector, { matchLabels: { app: 'web' } });
  assert.deepEqual(containersOf(spec, 'template'), ['mesh-init', 'mesh-proxy', 'app']);
});

test('Pods that are not injected stay as they are, with the reason', () => {
  const text = DEPLOYMENT.replace('    spec:\n', '    spec:\n      hostNetwork: true\n');
  const result = inject(text);
  assert.equal(result.text, text);
  assert.match(result.notes.join('\n'), /^web\.yaml:9: Deployment web: not injected: spec\.hostNetwork: /);
});

test('warnings have file, line and document', () => {
  const template = { spec: { containers: [{ name: 'mesh-proxy', image: 'auto' }] } };
  const spec = { jobTemplate: { spec: { template } } };
  const { notes } = inject(JSON.stringify({ apiVersion: 'batch/v1', kind: 'CronJob', metadata: { name: 'c' }, spec }));
  assert.match(
    notes.join(''),
    /^web\.yaml:1: CronJob c: warning: spec\.containers\[mesh-proxy\]: the Job ends only when /,
  );
});

test('injection twice is injection once', () => {
  const { text } = inject(DEPLOYMENT);
  assert.equal(inject(text).text, text);
});

test('mistakes are one line with file, line and field', () => {
  const refused = (text: string, line: RegExp) => {
    assert.throws(
      () => inject(text),
      (error) => error instanceof CtlError && line.test(error.oneLine()),
    );
  };
  const annotated = DEPLOYMENT.replace(
    '      labels:',
    '      annotations:\n        sidecar.mesh.io/logLevel: loud\n      labels:',
  );
  refused(
    `${SERVICE}---\n${annotated}`,
    /^web\.yaml:17: Deployment web: spec\.template\.metadata\.annotations\[sidecar\.mesh\.io\/logLevel\]: expected /,
  );
  refused(DEPLOYMENT.replace('name: app #', 'nam: app #'), /^web\.yaml:15: .* spec\.template\.spec\.containers\[0\]/);
  refused('a: [', /^web\.yaml:1: expected YAML: /);
  refused('apiVersion: apps/v1\nkind: Deployment\nspec: {}\n', /^web\.yaml:3: spec\.template: expected the template/);
});
