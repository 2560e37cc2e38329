import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Attributes, Value } from '../../expressions/index.ts';
import { compiled } from '../testing/compiled.ts';
import type { PolicyConfig } from '../types.ts';

const attributes = (values: Readonly<Record<string, Value>>): Attributes => ({ get: (name) => values[name] });

const HANDLERS = `
kind: handler
metadata: { name: deny }
spec: { compiledAdapter: denier, params: { status: { code: 7, message: not allowed } } }
---
kind: handler
metadata: { name: versions }
spec: { compiledAdapter: listchecker, params: { overrides: [v1, v2] } }
---
kind: handler
metadata: { name: quotas }
spec:
  compiledAdapter: memquota
  params:
    quotas:
      - name: requests.quota.mesh-system
        maxAmount: 5000
        validDuration: 1s
        overrides: [{ dimensions: { destination: ratings }, maxAmount: "1", validDuration: 5s }]
---
kind: handler
metadata: { name: scraped }
spec:
  compiledAdapter: prometheus
  params:
    metrics:
      - { name: requests_total, instance_name: count.metric.mesh-system, kind: COUNTER, label_names: [source] }
      - name: seconds
        namespace: mesh
        instanceName: time
        kind: DISTRIBUTION
        buckets: { exponentialBuckets: { numFiniteBuckets: 2, growthFactor: 2, scale: 1 } }
    metricsExpirationPolicy: { metricsExpiryDuration: 10m }
---
kind: handler
metadata: { name: printed }
spec: { compiledAdapter: stdio, params: { logStream: STDERR, outputAsJson: false } }
`;
const INSTANCES = `
---
kind: instance
metadata: { name: any }
spec: { compiledTemplate: checknothing }
---
kind: instance
metadata: { name: version }
spec: { compiledTemplate: listentry, params: { value: 'source.labels["version"] | "none"' } }
---
kind: instance
metadata: { name: requests }
spec: { compiledTemplate: quota, params: { dimensions: { destination: 'destination.labels["app"] | "unknown"' } } }
---
kind: instance
metadata: { name: count }
spec: { compiledTemplate: metric, params: { value: "1", dimensions: { source: source.name | "unknown" } } }
---
kind: instance
metadata: { name: time }
spec: { compiledTemplate: metric, params: { value: response.duration | "0ms" } }
---
kind: instance
metadata: { name: line }
spec:
  compiledTemplate: logentry
  params:
    severity: 'conditional(response.code >= 500, "error", "info")'
    timestamp: request.time
    variables: { code: response.code, peer: 'source.ip | ip("0.0.0.0")' }
`;

const rule = (actions: string, more = ''): string => `
---
kind: rule
metadata: { name: r }
spec:
  match: destination.namespace == "shop" && request.method != "GET"
  actions: ${actions}
  ${more}
`;

const messages = ({ problems }: PolicyConfig): string[] =>
  problems.map(({ kind, namespace, name, field, message }) => `${kind}/${namespace}/${name}: ${field}: ${message}`);

describe('documents that are right', () => {
  const config = compiled(
    `${HANDLERS}${INSTANCES}${rule(
      '[{ handler: deny, instances: [any] }, { handler: quotas, instances: [requests.instance.mesh-system] },' +
        ' { handler: versions.mesh-system, instances: [version.listentry] },' +
        ' { handler: scraped, instances: [count, time] }, { handler: printed, instances: [line] }]',
      'requestHeaderOperations: [{ name: X-Peer, values: [source.name | "-"], operation: APPEND }]',
    )}`,
  );
  const instance = (id: string) =>
    config.rules.flatMap(({ actions }) => actions.flatMap(({ instances }) => instances)).find((each) => each.id === id);

  test('have no problems, and are counted', () => {
    assert.deepEqual(messages(config), []);
    const { attributes: known, ...counts } = config.counts;
    assert.ok(known > 60, String(known));
    assert.deepEqual(
      Object.entries(counts).filter(([, count]) => count > 0),
      [
        ['handlers', 5],
        ['instances', 6],
        ['rules', 1],
      ],
    );
  });

  test('a rule has its condition, its actions in order, and its header operations', () => {
    const [first] = config.rules;
    assert.equal(first?.namespace, undefined);
    assert.deepEqual(first?.match?.reads, ['destination.namespace', 'request.method']);
    assert.deepEqual(
      first?.actions.map(({ handler, instances }) => [handler.id, ...instances.map(({ id }) => id)]),
      [
        ['deny.mesh-system', 'any.instance.mesh-system'],
        ['quotas.mesh-system', 'requests.instance.mesh-system'],
        ['versions.mesh-system', 'version.instance.mesh-system'],
        ['scraped.mesh-system', 'count.instance.mesh-system', 'time.instance.mesh-system'],
        ['printed.mesh-system', 'line.instance.mesh-system'],
      ],
    );
    const [header] = first?.requestHeaders ?? [];
    assert.deepEqual([header?.name, header?.operation], ['x-peer', 'APPEND']);
    assert.equal(header?.values[0]?.evaluate(attributes({ 'source.name': 'front' })), 'front');
  });

  test('an instance is built from attributes', () => {
    const labels = new Map([['app', 'ratings']]);
    assert.deepEqual(instance('requests.instance.mesh-system')?.build(attributes({ 'destination.labels': labels })), {
      template: 'quota',
      dimensions: new Map([['destination', 'ratings']]),
    });
    assert.deepEqual(instance('version.instance.mesh-system')?.build(attributes({})), {
      template: 'listentry',
      value: 'none',
    });
    assert.deepEqual(
      instance('time.instance.mesh-system')?.build(
        attributes({ 'response.duration': { kind: 'duration', nanos: 1_500_000_000n } }),
      ),
      { template: 'metric', value: 1.5, dimensions: new Map() },
    );
    const time = { kind: 'timestamp', nanos: 5n } as const;
    assert.deepEqual(
      instance('line.instance.mesh-system')?.build(attributes({ 'response.code': 503n, 'request.time': time })),
      {
        template: 'logentry',
        severity: 'error',
        timestamp: time,
        variables: new Map<string, Value>([
          ['code', 503n],
          ['peer', Uint8Array.of(0, 0, 0, 0)],
        ]),
      },
    );
    assert.throws(() => instance('line.instance.mesh-system')?.build(attributes({})), /response.code is missing/);
  });

  test('an instance says what it reads', () => {
    assert.deepEqual(instance('line.instance.mesh-system')?.reads, ['request.time', 'response.code', 'source.ip']);
  });

  test('parameters of handlers have defaults and one form', () => {
    const params = (name: string): unknown => config.handlers.get(`${name}.mesh-system`)?.params;
    assert.deepEqual(params('deny'), {
      status: { code: 7, message: 'not allowed' },
      validDurationMs: 5000,
      validUseCount: 1000,
    });
    assert.deepEqual(params('quotas'), {
      quotas: [
        {
          name: 'requests.instance.mesh-system',
          maxAmount: 5000,
          validDurationMs: 1000,
          overrides: [{ dimensions: new Map([['destination', 'ratings']]), maxAmount: 1, validDurationMs: 5000 }],
        },
      ],
      minDeduplicationDurationMs: 1000,
    });
    const { metrics, expiryMs, expiryCheckIntervalMs } = params('scraped') as never as {
      metrics: { name: string; instanceName: string; buckets: number[]; labelNames: string[] }[];
      expiryMs: number;
      expiryCheckIntervalMs: number;
    };
    assert.deepEqual([expiryMs, expiryCheckIntervalMs], [600_000, 300_000]);
    assert.deepEqual(
      metrics.map(({ name, instanceName, buckets, labelNames }) => [name, instanceName, buckets, labelNames]),
      [
        ['istio_requests_total', 'count.instance.mesh-system', [], ['source']],
        ['mesh_seconds', 'time.instance.mesh-system', [1, 2, 4], []],
      ],
    );
  });

  test('handlers with equal configuration have equal fingerprints', () => {
    const again = compiled(HANDLERS);
    const other = compiled(HANDLERS.replace('code: 7', 'code: 5'));
    const fingerprint = (from: PolicyConfig, id: string) => from.handlers.get(id)?.fingerprint;
    assert.equal(fingerprint(config, 'deny.mesh-system'), fingerprint(again, 'deny.mesh-system'));
    assert.notEqual(fingerprint(config, 'deny.mesh-system'), fingerprint(other, 'deny.mesh-system'));
  });
});

describe('documents that are wrong are left out, each with its field', () => {
  const wrong = (name: string, text: string, expected: readonly string[], counts: object): void => {
    test(name, () => {
      const config = compiled(text);
      assert.deepEqual(messages(config), expected);
      for (const [key, count] of Object.entries(counts)) {
        assert.equal(config.counts[key as keyof PolicyConfig['counts']], count, key);
      }
    });
  };

  wrong(
    'types of expressions',
    `${HANDLERS}
---
kind: instance
metadata: { name: line }
spec: { compiledTemplate: logentry, params: { severity: response.code, variables: { a: request.sise } } }
---
kind: rule
metadata: { name: r }
spec: { match: request.size, actions: [{ handler: printed, instances: [line] }] }`,
    [
      'instance/mesh-system/line: spec.params.variables.a: column 1: unknown attribute "request.sise",' +
        ' did you mean request.size?',
      'instance/mesh-system/line: spec.params.severity: expected an expression of type STRING, got INT64',
      'rule/mesh-system/r: spec.match: column 1: expected an expression of type BOOL, got INT64',
    ],
    { instances: 0, instanceErrors: 2, rules: 0, ruleErrors: 1, ruleMatchErrors: 1 },
  );

  wrong(
    'unknown handlers and instances',
    `${HANDLERS}${INSTANCES}${rule(
      '[{ handler: none, instances: [any] }, { handler: deny, instances: [any, any, absent, count] },' +
        ' { handler: quotas, instances: [version] }]',
    )}`,
    [
      'rule/mesh-system/r: spec.actions[0].handler: handler "none" does not exist or is wrong',
      'rule/mesh-system/r: spec.actions[1].instances[1]: instance "any" is listed twice',
      'rule/mesh-system/r: spec.actions[1].instances[2]: instance "absent" does not exist or is wrong',
      'rule/mesh-system/r: spec.actions[1].instances[3]: handler deny.mesh-system does not support instances of' +
        ' template metric',
      'rule/mesh-system/r: spec.actions[2].instances[0]: handler quotas.mesh-system does not support instances of' +
        ' template listentry',
      'rule/mesh-system/r: spec.actions[2].instances: no instance is left: the action has no effect',
      'rule/mesh-system/r: spec: the rule is wrong and decides: it refuses requests to which it applies',
    ],
    { rules: 1, unsatisfiedActions: 1 },
  );

  wrong(
    'a quota without a limit',
    `${HANDLERS}
---
kind: instance
metadata: { name: other }
spec: { compiledTemplate: quota }
${rule('[{ handler: quotas, instances: [other] }]')}`,
    [
      'rule/mesh-system/r: spec.actions[0].instances[0]: handler quotas.mesh-system has no quota for' +
        ' other.instance.mesh-system',
      'rule/mesh-system/r: spec.actions[0].instances: no instance is left: the action has no effect',
      'rule/mesh-system/r: spec: the rule is wrong and decides: it refuses requests to which it applies',
    ],
    { rules: 1, ruleErrors: 3 },
  );

  wrong(
    'an attribute with two types',
    `
kind: attributemanifest
metadata: { name: own }
spec: { attributes: { request.size: { valueType: STRING }, request.tenant: { valueType: STRING } } }
---
kind: attributemanifest
metadata: { name: other, namespace: a }
spec: { attributes: { request.tenant: { valueType: INT64 } } }
---
kind: instance
metadata: { name: entry }
spec: { compiledTemplate: listentry, params: { value: request.tenant } }`,
    [
      'attributemanifest/mesh-system/own: spec.attributes["request.size"].valueType: expected INT64,' +
        ' which the attribute has elsewhere',
      'attributemanifest/a/other: spec.attributes["request.tenant"].valueType: expected STRING,' +
        ' which the attribute has elsewhere',
    ],
    { instances: 1 },
  );

  wrong(
    'a language that does not exist',
    `${HANDLERS}
---
kind: instance
metadata: { name: any, annotations: { policy.istio.io/lang: LUA } }
spec: { compiledTemplate: checknothing }`,
    ['instance/mesh-system/any: metadata.annotations["policy.mesh.io/lang"]: expected one of CEXL, CEL, COMPAT'],
    { instances: 0 },
  );
});

describe('namespaces', () => {
  const tenant = (handler: string) => `${HANDLERS}${INSTANCES}
---
kind: handler
metadata: { name: own, namespace: b }
spec: { compiledAdapter: denier }
---
kind: rule
metadata: { name: r, namespace: a }
spec: { actions: [{ handler: ${handler}, instances: [any.mesh-system] }] }`;

  test('a rule is for the traffic of its namespace, and may use what the configuration namespace has', () => {
    const config = compiled(tenant('deny.mesh-system'));
    assert.deepEqual(messages(config), []);
    assert.equal(config.rules[0]?.namespace, 'a');
  });

  test('a rule cannot use the handlers of another namespace', () => {
    assert.match(messages(compiled(tenant('own.b')))[0] ?? '', /handler "own.b" does not exist/);
  });

  test('attributes of a namespace are for its own documents', () => {
    const entry = (namespace: string) => `
---
kind: instance
metadata: { name: entry, namespace: ${namespace} }
spec: { compiledTemplate: listentry, params: { value: request.tenant } }`;
    const manifest = `
kind: attributemanifest
metadata: { name: own, namespace: a }
spec: { attributes: { request.tenant: { valueType: STRING } } }`;
    const config = compiled(`${manifest}${entry('a')}${entry('b')}`);
    assert.deepEqual(messages(config), [
      'instance/b/entry: spec.params.value: column 1: unknown attribute "request.tenant"',
    ]);
  });

  test('problems of one namespace do not displace those of others, and all are counted', () => {
    const wrong = (namespace: string, name: string) =>
      `kind: rule\nmetadata: { name: ${name}, namespace: ${namespace} }\nspec: { match: size, actions: [{ handler: h, instances: [i] }] }\n`;
    const many = Array.from({ length: 150 }, (_, index) => wrong('a', `r${index}`));
    const { problems, counts } = compiled([...many, wrong('b', 'r')].join('---\n'));
    assert.deepEqual([problems.length, problems.at(-1)?.namespace, counts.ruleErrors], [102, 'b', 302]);
  });

  test('documents of a kind in a namespace are limited, those of others stay', () => {
    const many = Array.from(
      { length: 1001 },
      (_, index) => `kind: handler\nmetadata: { name: h${index}, namespace: a }\nspec: { compiledAdapter: denier }\n`,
    );
    const config = compiled([...many, HANDLERS].join('---\n'));
    assert.equal(config.handlers.size, 1005);
    assert.deepEqual(messages(config), [
      'handler/a/h999: : expected at most 1000 documents of this kind in a namespace',
    ]);
  });
});

describe('languages', () => {
  const text = (annotations = '{}') => `
kind: instance
metadata: { name: entry, annotations: ${annotations} }
spec: { compiledTemplate: listentry, params: { value: 'has(source.name) ? source.name : "none"' } }`;

  test('an annotation selects the language of a document, MESH_LANG that of all', () => {
    assert.equal(compiled(text()).counts.instances, 0);
    assert.equal(compiled(text('{ policy.mesh.io/lang: CEL }')).counts.instances, 1);
    assert.equal(compiled(text(), 'CEL').counts.instances, 1);
    assert.equal(compiled(text('{ policy.mesh.io/lang: CEL }'), 'CEXL').counts.instances, 0);
  });
});
