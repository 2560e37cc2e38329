import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import { jsonPatch } from '../json-patch/index.ts';
import type { Injector, PodObject } from '../types.ts';
import { createInjector } from './index.ts';
import { injected, SETTINGS, webPod, withConfig } from './testing/settings.ts';

interface Container {
  readonly name: string;
  readonly image?: string;
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly [field: string]: unknown;
}

const list = (pod: PodObject, field: 'containers' | 'initContainers') =>
  ((pod.spec as Record<string, unknown>)[field] ?? []) as readonly Container[];
const names = (pod: PodObject) =>
  [...list(pod, 'initContainers'), { name: '|' }, ...list(pod, 'containers')].map(({ name }) => name).join(' ');
const proxyOf = (pod: PodObject) =>
  [...list(pod, 'initContainers'), ...list(pod, 'containers')].find(({ name }) => name === 'mesh-proxy');

function refusal(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof CtlError) return error.oneLine();
    throw error;
  }
  return 'accepted';
}

describe('decision', () => {
  const decided = (injector: Injector, pod: PodObject, namespace = 'shop'): string => {
    const result = injector.inject(pod, namespace);
    return result.kind === 'injected' ? 'injected' : result.reason;
  };
  const enabled = createInjector(SETTINGS);
  const inject = (value: string, on: 'labels' | 'annotations' = 'annotations', key = 'sidecar.mesh.io/inject') =>
    webPod({ metadata: { [on]: { [key]: value } } });

  test('Pods of the node network, of Windows, of the cluster and of the control plane are skipped', () => {
    const always = { annotations: { 'sidecar.mesh.io/inject': 'true' } };
    assert.match(decided(enabled, webPod({ metadata: always, spec: { hostNetwork: true } })), /^spec\.hostNetwork/);
    assert.match(decided(enabled, webPod({ metadata: always, spec: { os: { name: 'windows' } } })), /Windows/);
    const selected = { nodeSelector: { 'kubernetes.io/os': 'windows' } };
    assert.match(decided(enabled, webPod({ spec: selected })), /Windows/);
    assert.match(decided(enabled, webPod({ metadata: always }), 'kube-system'), /kube-system belongs to the cluster/);
    assert.match(decided(enabled, webPod({ metadata: always }), 'mesh-system'), /that of the control plane/);
  });

  test('a Pod that is a gateway itself gets no sidecar, whatever its labels say', () => {
    const gateway = (container: object, annotations = {}) =>
      webPod({
        metadata: { labels: { 'sidecar.mesh.io/inject': 'true' }, annotations },
        spec: { containers: [container] },
      });
    const args = ['proxy', 'router', '--domain=x'];
    for (const name of ['mesh-proxy', 'istio-proxy', 'proxy'])
      assert.equal(decided(enabled, gateway({ name, args })), `spec.containers[${name}]: the Pod is a gateway itself`);
    const command = ['ctl-agent', 'proxy', 'router'];
    assert.match(decided(enabled, gateway({ name: 'proxy', command })), /is a gateway itself/);
    const sidecar = { 'inject.mesh.io/templates': 'mine,traced' };
    const aliased = createInjector(withConfig('aliases: { traced: [sidecar] }\ntemplates: { mine: "spec: {}" }'));
    assert.match(decided(aliased, gateway({ name: 'proxy', args }, sidecar)), /is a gateway itself/);
    for (const other of [{ name: 'app', args }, { name: 'proxy', args: ['proxy', '--router'] }, { name: 'proxy' }])
      assert.equal(decided(enabled, gateway(other)), 'injected');
  });

  test('the template of gateways is for Pods that are gateways, even when it is applied again', () => {
    const metadata = { annotations: { 'inject.mesh.io/templates': 'gateway' } };
    const pod = webPod({ metadata, spec: { containers: [{ name: 'mesh-proxy', image: 'auto' }] } });
    const first = injected(enabled, pod);
    assert.deepEqual(injected(enabled, first), first);
  });

  test('the label takes precedence over the annotation, and both over selectors and policy', () => {
    const config = withConfig(`
policy: disabled
alwaysInjectSelector: [{ matchLabels: { tier: front } }]
neverInjectSelector: [{ matchExpressions: [{ key: job-name, operator: Exists }] }]
`);
    const disabled = createInjector(config);
    assert.equal(decided(enabled, webPod()), 'injected');
    assert.match(decided(enabled, inject('false')), /^sidecar\.mesh\.io\/inject is false/);
    assert.match(decided(enabled, inject('no', 'annotations', 'sidecar.istio.io/inject')), /inject is false/);
    assert.match(decided(disabled, webPod()), /^the policy is disabled/);
    assert.equal(decided(disabled, inject('yes', 'labels')), 'injected');
    const both = {
      labels: { 'sidecar.mesh.io/inject': 'true', 'job-name': 'x' },
      annotations: { 'sidecar.mesh.io/inject': 'false' },
    };
    assert.equal(decided(disabled, webPod({ metadata: both })), 'injected');
    assert.equal(decided(disabled, webPod({ metadata: { labels: { tier: 'front' } } })), 'injected');
    const never = { labels: { tier: 'front', 'job-name': 'x' } };
    assert.equal(decided(disabled, webPod({ metadata: never })), 'neverInjectSelector[0] selects the Pod');
  });

  test('Pods that are not injected are not refused for other annotations', () => {
    const metadata = { annotations: { 'sidecar.mesh.io/inject': 'false', 'sidecar.mesh.io/logLevel': 'loud' } };
    assert.match(decided(enabled, webPod({ metadata })), /inject is false/);
    const wrong = /^metadata\.annotations\[sidecar\.mesh\.io\/inject\]: expected true or false, got "maybe"$/;
    assert.match(
      refusal(() => decided(enabled, inject('maybe'))),
      wrong,
    );
  });

  test('a Pod with the sidecar of another mesh is skipped', () => {
    assert.match(
      decided(enabled, webPod({ metadata: { annotations: { 'sidecar.istio.io/status': '{}' } } })),
      /another control plane/,
    );
  });
});

describe('order', () => {
  const init = { initContainers: [{ name: 'migrate', image: 'm' }] };
  test('the proxy as an init container follows the redirection and precedes those of the Pod', () => {
    assert.equal(
      names(injected(createInjector(SETTINGS), webPod({ spec: init }))),
      'mesh-init mesh-proxy migrate | app',
    );
  });

  test('beside the application it is the last container, and the redirection the last init container', () => {
    const injector = createInjector(withConfig('{}', 'global: { nativeSidecar: false }'));
    const pod = injected(injector, webPod({ spec: init }));
    assert.equal(names(pod), 'migrate mesh-init | app mesh-proxy');
    assert.equal(proxyOf(pod)?.lifecycle, undefined);
  });

  test('where the application waits for the proxy, the proxy is first, and kubectl still chooses the application', () => {
    const injector = createInjector(
      withConfig('{}', 'global: { nativeSidecar: false, proxy: { holdApplicationUntilProxyStarts: true } }'),
    );
    const pod = injected(injector, webPod());
    assert.equal(names(pod), 'mesh-init | mesh-proxy app');
    assert.deepEqual(proxyOf(pod)?.lifecycle, {
      postStart: { exec: { command: ['/usr/local/bin/node', '/opt/meshd/dist/ctl-agent.js', 'wait'] } },
    });
    const { annotations } = pod.metadata as { annotations: Record<string, string> };
    assert.equal(annotations['kubectl.kubernetes.io/default-container'], 'app');
  });

  test('without redirection by the Pod there is no privileged container', () => {
    const pod = injected(createInjector(withConfig('{}', 'global: { cni: true }')), webPod());
    assert.equal(names(pod), 'mesh-validation mesh-proxy | app');
    assert.deepEqual(proxyOf(pod)?.securityContext, {
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
      privileged: false,
      readOnlyRootFilesystem: true,
      runAsGroup: 1337,
      runAsNonRoot: true,
      runAsUser: 1337,
      seccompProfile: { type: 'RuntimeDefault' },
    });
  });
});

describe('containers of the Pod that override the templates', () => {
  const own = {
    name: 'mesh-proxy',
    image: 'auto',
    resources: { requests: { cpu: '2' } },
    env: [
      { name: 'MINE', value: 'x' },
      { name: 'CLUSTER_ID', value: 'y' },
    ],
  };
  const app = { name: 'app', image: 'app' };

  test('keep their fields and get the others, in the list of the template', () => {
    const pod = injected(createInjector(SETTINGS), webPod({ spec: { containers: [app, own] } }));
    assert.equal(names(pod), 'mesh-init mesh-proxy | app');
    const proxy = proxyOf(pod);
    assert.equal(proxy?.image, SETTINGS.image);
    assert.deepEqual(proxy?.resources, { requests: { cpu: '2', memory: '128Mi' }, limits: { memory: '1Gi' } });
    const env = Object.fromEntries((proxy?.env ?? []).map(({ name, value }) => [name, value]));
    assert.equal(env.MINE, 'x');
    assert.equal(env.CLUSTER_ID, 'y');
    assert.equal(proxy?.restartPolicy, 'Always');
  });

  test('a gateway is the only container of its Pod', () => {
    const pod = webPod({
      metadata: { annotations: { 'inject.istio.io/templates': 'gateway' } },
      spec: { containers: [own] },
    });
    const gateway = injected(createInjector(SETTINGS), pod);
    assert.equal(names(gateway), '| mesh-proxy');
    const { args } = proxyOf(gateway) as { args?: readonly string[] };
    assert.deepEqual(args?.slice(0, 2), ['proxy', 'router']);
  });

  test('an init container of such a name that is none in the template is refused', () => {
    const pod = webPod({
      metadata: { annotations: { 'inject.mesh.io/templates': 'gateway' } },
      spec: { initContainers: [own] },
    });
    assert.match(
      refusal(() => createInjector(SETTINGS).inject(pod, 'shop')),
      /^spec\.initContainers\[0\]\.name: expected/,
    );
  });
});

describe('templates', () => {
  const config = `
templates:
  debug: |
    spec:
      initContainers:
      - name: mesh-proxy
        env:
        - { name: DEBUG, value: "1" }
  plain: |
    metadata: { annotations: { plain: "{{ values.color }}" } }
aliases: { both: [sidecar, debug] }
injectedAnnotations: { from: config }
`;

  test('several overlay each other in their order, by name or alias', () => {
    const injector = createInjector(withConfig(config, 'color: red'));
    const pod = injected(injector, webPod({ metadata: { annotations: { 'inject.mesh.io/templates': 'both,plain' } } }));
    assert.ok(proxyOf(pod)?.env?.some(({ name }) => name === 'DEBUG'));
    assert.ok(proxyOf(pod)?.env?.some(({ name }) => name === 'POD_NAME'));
    const { annotations } = pod.metadata as { annotations: Record<string, string> };
    assert.equal(annotations.plain, 'red');
    assert.equal(annotations.from, 'config');
    assert.deepEqual(JSON.parse(annotations['sidecar.mesh.io/status'] ?? '').templates, ['sidecar', 'debug', 'plain']);
  });

  test('an unknown name is refused with the similar one', () => {
    const pod = webPod({ metadata: { annotations: { 'inject.mesh.io/templates': 'sidecars' } } });
    assert.equal(
      refusal(() => createInjector(SETTINGS).inject(pod, 'shop')),
      'metadata.annotations[inject.mesh.io/templates]: unknown template "sidecars", did you mean sidecar?',
    );
  });

  test('a template that gives no Pod is named', () => {
    const broken = (text: string) => {
      const injector = createInjector(withConfig(`templates: { t: ${JSON.stringify(text)} }\ndefaultTemplates: [t]\n`));
      return refusal(() => injector.inject(webPod(), 'shop'));
    };
    assert.equal(broken('status: {}'), 'template t: status: unknown field');
    assert.equal(
      broken('metadata: { labels: { a: 1 } }'),
      'template t: metadata.labels.a: expected a string, got 1 (put it in quotes)',
    );
    assert.match(broken('spec: { containers: [{ image: a }] }'), /^template t: spec\.containers\[0\]\.name: required/);
  });

  test('mistakes in config and values name origin, line and field', () => {
    const mistake = (text: string, values?: string) => refusal(() => createInjector(withConfig(text, values)));
    assert.equal(mistake('policy: on'), 'config.yaml:1: policy: expected one of enabled, disabled, got "on"');
    assert.equal(mistake('# c\ndefaultTemplates: [a]'), 'config.yaml: defaultTemplates[0]: unknown template "a"');
    assert.equal(mistake('aliases: { sidecar: [gateway] }'), 'config.yaml: aliases.sidecar: is the name of a template');
    assert.match(
      mistake('neverInjectSelector:\n- {}'),
      /^config\.yaml:2: neverInjectSelector\[0\]: expected matchLabels/,
    );
    assert.match(mistake('{}', 'global:\n  tag: 1.20'), /^values\.yaml:2: global\.tag: expected a string/);
    assert.match(mistake('{}', 'global: [}'), /^values\.yaml:1: expected YAML/);
  });
});

describe('a second injection', () => {
  test('keeps what others changed in between, and adds nothing', () => {
    const injector = createInjector(SETTINGS);
    const first = injected(injector, webPod());
    const changed = structuredClone(first) as {
      metadata: { labels: Record<string, string> };
      spec: Record<string, Container[]>;
    };
    changed.metadata.labels.added = 'x';
    changed.spec.containers?.unshift({ name: 'other', image: 'other' });
    changed.spec.initContainers?.unshift({ name: 'first', image: 'f' });
    const proxy = changed.spec.initContainers?.find(({ name }) => name === 'mesh-proxy');
    Object.assign(proxy ?? {}, {
      env: [...(proxy?.env ?? []), { name: 'OTHER', value: '1' }],
      image: 'mirror.example/ctl-agent:1.0',
    });
    const second = injected(injector, changed as unknown as PodObject);
    assert.equal(names(second), 'mesh-init mesh-proxy first | other app');
    assert.equal(proxyOf(second)?.image, 'mirror.example/ctl-agent:1.0');
    assert.ok(proxyOf(second)?.env?.some(({ name }) => name === 'OTHER'));
    assert.deepEqual(injected(injector, second), second);
  });

  test('with the defaults that the API server fills in, changes nothing', () => {
    const injector = createInjector(SETTINGS);
    const first = structuredClone(injected(injector, webPod())) as { spec: Record<string, Record<string, unknown>[]> };
    for (const container of [...(first.spec.initContainers ?? []), ...(first.spec.containers ?? [])]) {
      container.terminationMessagePath = '/dev/termination-log';
      container.imagePullPolicy ??= 'IfNotPresent';
      const probe = container.startupProbe as
        | { httpGet?: Record<string, unknown>; successThreshold?: number }
        | undefined;
      if (probe?.httpGet !== undefined)
        Object.assign(probe, { successThreshold: 1, httpGet: { ...probe.httpGet, scheme: 'HTTP' } });
    }
    assert.deepEqual(jsonPatch(first, injected(injector, first as unknown as PodObject)), []);
  });
});

test('settings that are legal but likely wrong cause a warning', () => {
  const injector = createInjector(withConfig('{}', 'global: { nativeSidecar: false }'));
  const job = webPod({
    metadata: { ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name: 'j', controller: true }] },
    spec: {
      securityContext: { runAsUser: 1337 },
      containers: [
        { name: 'app', image: 'a' },
        { name: 'istio-proxy', image: 'proxy:1', securityContext: { runAsUser: 0 } },
      ],
    },
  });
  const result = injector.inject(job, 'shop');
  assert.ok(result.kind === 'injected');
  assert.deepEqual(result.warnings, [
    'spec.containers[app]: runs as user 1337, whose traffic bypasses the proxy',
    'spec.containers[istio-proxy]: the sidecar of this mesh is named mesh-proxy',
    'spec.containers[mesh-proxy]: the Job ends only when the application ends the proxy with POST ' +
      'http://localhost:15020/quitquitquit, or with nativeSidecar',
  ]);
});

test('search domains of the values are domains', () => {
  const wrong = (domain: string) =>
    refusal(() => createInjector(withConfig('', `global: { podDNSSearchNamespaces: ["${domain}"] }`)));
  assert.equal(wrong('{{ namespace }}.svc.example'), 'accepted');
  for (const domain of ['', 'a b', '{{ pod.metadata.name }}', 'a..b', '-a'])
    assert.match(wrong(domain), /^values\.yaml:1: global\.podDNSSearchNamespaces\[0\]: expected a DNS domain/, domain);
});

test('a workload with a long name gets a label of at most 63 characters', () => {
  const name = `${'a'.repeat(62)}-${'b'.repeat(20)}`;
  const owner = { apiVersion: 'apps/v1', kind: 'StatefulSet', name, controller: true };
  const pod = injected(createInjector(SETTINGS), webPod({ metadata: { labels: {}, ownerReferences: [owner] } }));
  const { labels } = pod.metadata as { labels: Record<string, string> };
  assert.equal(labels['service.mesh.io/canonical-name'], 'a'.repeat(62));
});

test('cluster and network come from the path, and credentials follow the token policy', () => {
  const injector = createInjector({ ...SETTINGS, jwtPolicy: 'first-party-jwt' });
  const result = injector.inject(webPod(), 'shop', { cluster: 'east', network: 'vpc' });
  assert.ok(result.kind === 'injected');
  const env = Object.fromEntries((proxyOf(result.pod)?.env ?? []).map(({ name, value }) => [name, value]));
  assert.equal(env.CLUSTER_ID, 'east');
  assert.equal(env.MESH_META_NETWORK, 'vpc');
  assert.ok(!JSON.stringify(result.pod).includes('mesh-token'));
});

test('a Pod with 10,000 containers is injected, and the patch is small', () => {
  const containers = Array.from({ length: 10_000 }, (_, index) => ({ name: `c${index}`, image: 'a' }));
  const pod = webPod({ spec: { containers } });
  const paths = jsonPatch(pod, injected(createInjector(SETTINGS), pod)).map(({ op, path }) => `${op} ${path}`);
  assert.ok(paths.length < 12 && paths.every((path) => path.startsWith('add ')), paths.join('\n'));
});
