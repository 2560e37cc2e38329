import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import { isObject } from '../../core/objects.ts';
import * as fc from '../../core/testing/properties.ts';
import { jsonPatch } from '../json-patch/index.ts';
import type { PodObject } from '../types.ts';
import { createInjector } from './index.ts';
import { recordOf, recordsOf, textOf } from './pod-shape.ts';
import { injected, SETTINGS, webPod, withConfig } from './testing/settings.ts';

/** Syntax of YAML, Liquid, JSON, JSON Pointer, shells and variables of containers. */
const PIECES = [
  '\n',
  '\r\n',
  '\u2028',
  '"',
  "'",
  '\\',
  ': ',
  '- ',
  '{',
  '}',
  '[]',
  ',',
  '#',
  '&a',
  '*a',
  '!!binary ',
  '---\n',
  '...\n',
  '|\n  ',
  '>-\n',
  '{{ values }}',
  '{% raw %}',
  '{% endfor %}',
  '{{ "x" | raw }}',
  '$(POD_NAME)',
  '$HOME',
  '`id`',
  '~1',
  '/',
  '\u0000',
  '😀',
  '\nspec:\n  hostNetwork: true\n',
  '"\n      privileged: true\n#',
  'null',
  '0x10',
  'v0123456789abcdefx0x',
  '__proto__',
  'constructor',
];
const syntax = fc.array(fc.constantFrom(...PIECES), { minLength: 1, maxLength: 6 }).map((parts) => parts.join(''));

/** A template of a user who quotes nothing, and uses every value. */
const CARELESS = `
templates:
  careless: |
    metadata:
      annotations:
        copied: {{ pod.metadata.annotations["note"] }}
        part: a-{{ pod.metadata.labels["app"] }}-b
        quoted: "{{ pod.metadata.annotations["note"] }}"
        single: '{{ workload.name }}'
        {{ pod.metadata.annotations["note"] | prepend: "key." }}: x
    spec:
      initContainers:
      - name: careless
        image: {{ pod.metadata.annotations["note"] }}
        command: [sh, -c, {{ pod.metadata.annotations["note"] }}]
        env:
        - { name: NOTE, value: {{ pod.metadata.annotations["note"] }} }
        - name: BLOCK
          value: |
            {{ pod.metadata.annotations["note"] }}
            {%- for container in pod.spec.containers %}
            {{ container.image }} {{ container.env[0].name }}
            {%- endfor %}
defaultTemplates: [sidecar, careless]
`;

/** The fields and the types of their values. One field has a name that contains a string of the user. */
function structure(value: unknown, text: string): unknown {
  if (Array.isArray(value)) return value.map((entry) => structure(entry, text));
  if (!isObject(value)) return typeof value;
  return Object.fromEntries(
    Object.entries(value).map(([key, entry]) => [key === `key.${text}` ? 'key.TEXT' : key, structure(entry, text)]),
  );
}

function podWith(text: string): PodObject {
  return webPod({
    metadata: {
      name: text,
      labels: { app: text, version: text, 'mesh.example/x': text },
      annotations: { note: text, 'example.org/other': text },
      ownerReferences: [{ apiVersion: text, kind: text, name: text, uid: text, controller: true }],
    },
    spec: {
      serviceAccountName: text,
      containers: [
        {
          name: 'app',
          image: text,
          args: [text],
          env: [{ name: text, value: text }],
          volumeMounts: [{ name: 'data', mountPath: text }],
        },
      ],
      volumes: [{ name: 'data', hostPath: { path: text } }],
    },
  });
}

test('strings of a Pod with the syntax of YAML and templates change no structure', () => {
  const injector = createInjector(withConfig(CARELESS));
  const harmless = structure(injected(injector, podWith('harmless')), 'harmless');
  fc.assert(
    fc.property(syntax, (text) => {
      const pod = injected(injector, podWith(text));
      assert.deepEqual(structure(pod, text), harmless);
      const { metadata, spec } = pod as { metadata: Record<string, Record<string, string>>; spec: unknown };
      // And the values arrive unchanged.
      assert.equal(metadata.annotations?.copied, text);
      assert.equal(metadata.annotations?.quoted, text);
      assert.equal(metadata.annotations?.part, `a-${text}-b`);
      const { initContainers } = spec as { initContainers: { name: string; command?: string[] }[] };
      assert.deepEqual(initContainers.find(({ name }) => name === 'careless')?.command, ['sh', '-c', text]);
    }),
    { numRuns: 500 },
  );
});

test('annotations of injection with the syntax of YAML and templates are refused, or change no structure', () => {
  const injector = createInjector(SETTINGS);
  const names = [
    'sidecar.mesh.io/proxyImage',
    'sidecar.istio.io/logLevel',
    'sidecar.mesh.io/proxyCPU',
    'sidecar.mesh.io/bootstrapOverride',
    'proxy.mesh.io/config',
    'traffic.sidecar.mesh.io/includeInboundPorts',
    'sidecar.mesh.io/userVolume',
    'inject.mesh.io/templates',
    'sidecar.mesh.io/status',
    'sidecar.mesh.io/inject',
  ];
  fc.assert(
    fc.property(fc.constantFrom(...names), syntax, (name, text) => {
      try {
        const pod = webPod({ metadata: { annotations: { [name]: text } } });
        const result = injector.inject(pod, 'shop');
        if (result.kind === 'skipped') return;
        const plain = createInjector(SETTINGS).inject(webPod({ metadata: { annotations: { [name]: 'x' } } }), 'shop');
        assert.ok(plain.kind === 'injected');
        assert.deepEqual(structure(result.pod, text), structure(plain.pod, 'x'));
      } catch (error) {
        if (!(error instanceof CtlError)) throw error;
        assert.equal(error.code, 'invalid_argument');
        assert.ok(!error.oneLine().includes('\n'));
        assert.match(error.location.field ?? '', /^metadata\.annotations/);
      }
    }),
    { numRuns: 500 },
  );
});

const optional = (fields: Readonly<Record<string, fc.Arbitrary<unknown>>>, ...requiredKeys: string[]) =>
  fc.record(fields, { requiredKeys, noNullPrototype: true });
const list = (entry: fc.Arbitrary<unknown>) => fc.array(entry, { maxLength: 3 });
const words = fc.constantFrom('app', 'mesh-proxy', 'mesh-init', 'auto', 'a/b', 'istio-proxy', '/metrics');
const keys = fc.constantFrom('app', 'a.example/b', 'prometheus.io/path', 'mesh.io/rev', '__proto__', 'constructor');
const texts = fc.dictionary(keys, words, { maxKeys: 4, noNullPrototype: true });
const annotations = fc.tuple(
  texts,
  fc.constantFrom({}, { 'prometheus.io/scrape': 'true', 'prometheus.io/port': '80' }),
);
const port = fc.constantFrom(8080, 'http');
const anything = fc.jsonValue({ maxDepth: 2 });
const probe = fc.oneof(
  optional({ httpGet: optional({ path: words, port }, 'port'), timeoutSeconds: fc.nat(5) }),
  optional({ tcpSocket: optional({ port }, 'port'), periodSeconds: fc.nat(5) }),
  optional({ exec: optional({ command: list(words) }) }),
);
const container = optional(
  {
    name: words,
    image: words,
    args: list(words),
    env: list(optional({ name: words, value: words }, 'name')),
    ports: list(optional({ name: fc.constant('http'), containerPort: fc.nat(65_535) }, 'containerPort')),
    resources: optional({ limits: optional({ cpu: fc.constant('1') }) }),
    volumeMounts: list(optional({ name: words, mountPath: words }, 'name', 'mountPath')),
    securityContext: optional({ runAsUser: fc.constantFrom(0, 1337), capabilities: optional({ add: list(words) }) }),
    lifecycle: optional({ postStart: optional({ exec: optional({ command: list(words) }) }) }),
    livenessProbe: probe,
    readinessProbe: probe,
    startupProbe: probe,
  },
  'name',
);
const containers = fc.uniqueArray(container, { minLength: 1, maxLength: 3, selector: ({ name }) => name });
const validPods = optional(
  {
    metadata: optional({
      name: words,
      labels: texts,
      annotations: annotations.map((parts) => Object.assign({}, ...parts)),
      ownerReferences: list(optional({ kind: words, name: words, controller: fc.boolean() })),
    }),
    spec: optional(
      {
        containers,
        initContainers: containers,
        volumes: list(optional({ name: words }, 'name')),
        imagePullSecrets: list(optional({ name: words })),
        nodeSelector: texts,
        affinity: optional({ podAffinity: optional({}) }),
        terminationGracePeriodSeconds: fc.nat(),
      },
      'containers',
    ),
  },
  'spec',
);

/** The document with another value at some step below its root. */
function corrupted(document: unknown, steps: readonly number[], value: unknown): unknown {
  const [step, ...rest] = steps;
  if (step === undefined || typeof document !== 'object' || document === null) return value;
  const all = Object.entries(document);
  const [key] = all[step % Math.max(1, all.length)] ?? [];
  if (key === undefined) return value;
  const changed = all.map(([name, entry]) => [name, name === key ? corrupted(entry, rest, value) : entry] as const);
  return Array.isArray(document) ? changed.map(([, entry]) => entry) : Object.fromEntries(changed);
}
const corruption = fc.option(fc.tuple(fc.array(fc.nat(20), { maxLength: 7 }), anything), { nil: undefined });
const pods = fc
  .tuple(validPods, corruption, corruption)
  .map(([pod, ...corruptions]) =>
    corruptions.reduce<unknown>((before, each) => (each === undefined ? before : corrupted(before, ...each)), pod),
  );

/** Where injection rewrites what the user wrote. */
const REWRITTEN =
  /^\/metadata\/annotations\/(sidecar\.mesh\.io~1status|prometheus\.io~1\w+)|^\/spec\/(init)?[cC]ontainers/;

test('any Pod gets an answer or one line with the field, and keeps its own fields', () => {
  const injector = createInjector(SETTINGS);
  let answers = 0;
  fc.assert(
    fc.property(pods, (pod) => {
      const before = JSON.stringify(pod);
      try {
        const result = injector.inject(pod as PodObject, 'shop');
        if (result.kind === 'skipped') return;
        answers++;
        for (const { op, path } of jsonPatch(pod, result.pod)) {
          assert.ok(op === 'add' || REWRITTEN.test(path) || isNull(pod, path), `${op} ${path}`);
        }
        assert.deepEqual(ownContainers(result.pod), ownContainers(pod));
        const again = injector.inject(result.pod, 'shop');
        assert.ok(again.kind === 'injected');
        assert.deepEqual(again.pod, result.pod, 'the second time changes nothing');
      } catch (error) {
        if (!(error instanceof CtlError)) throw error;
        assert.equal(error.code, 'invalid_argument', error.oneLine());
        assert.notEqual(error.location.field, undefined, error.oneLine());
      } finally {
        assert.equal(JSON.stringify(pod), before, 'the argument is not changed');
      }
    }),
    { numRuns: 3_000 },
  );
  assert.ok(answers > 300, `${answers} Pods were injected`);
});

/** The containers that injection does not have itself, without their probes, which the agent makes. */
function ownContainers(pod: unknown): readonly unknown[] {
  const spec = recordOf(recordOf(pod).spec);
  return [...recordsOf(spec.initContainers), ...recordsOf(spec.containers)]
    .filter(({ name }) => !['mesh-proxy', 'istio-proxy', 'mesh-init'].includes(textOf(name)))
    .map((entry) => Object.fromEntries(Object.entries(entry).filter(([field]) => !field.endsWith('Probe'))));
}

/** Fields that are null count as absent. */
function isNull(document: unknown, path: string): boolean {
  const steps = path.split('/').slice(1);
  const value = steps.reduce<unknown>(
    (at, step) => (isObject(at) ? at[step.replaceAll('~1', '/')] : undefined),
    document,
  );
  return value === null;
}
