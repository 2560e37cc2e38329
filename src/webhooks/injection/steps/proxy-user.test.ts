import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CtlError } from '../../../core/errors.ts';
import type { PodObject } from '../../types.ts';
import { createInjector } from '../index.ts';
import { recordOf, recordsOf } from '../pod-shape.ts';
import { injected, SETTINGS, webPod, withConfig } from '../testing/settings.ts';

const NATIVE_OFF = 'global: { nativeSidecar: false }';
const injectors = [createInjector(SETTINGS), createInjector(withConfig('', NATIVE_OFF))];
const cni = createInjector(withConfig('', 'global: { cni: true }'));
const TPROXY = { annotations: { 'sidecar.mesh.io/interceptionMode': 'TPROXY' } };

const podWith = (securityContext: object, metadata: object = {}, more: readonly object[] = []): PodObject =>
  webPod({
    metadata,
    spec: {
      containers: [{ name: 'app' }, { name: 'mesh-proxy', image: 'auto', securityContext }],
      initContainers: more,
    },
  });

const containerOf = ({ spec }: PodObject, name: string): Readonly<Record<string, unknown>> => {
  const { initContainers, containers } = recordOf(spec);
  const found = [...recordsOf(initContainers), ...recordsOf(containers)].find((each) => each.name === name);
  return found ?? assert.fail(`no container ${name}`);
};

/** The user and the group that the rules exempt. */
const exempted = (pod: PodObject, init = 'mesh-init'): readonly unknown[] => {
  const args = containerOf(pod, init).args as readonly string[];
  return ['-u', '-g'].map((flag) => args[args.indexOf(flag) + 1]);
};

test('the redirection exempts the user and group of the proxy, and of root only the other one', () => {
  for (const injector of injectors) {
    const of = (securityContext: object) => exempted(injected(injector, podWith(securityContext)));
    assert.deepEqual(of({}), ['1337', '1337']);
    assert.deepEqual(of({ runAsUser: 1234 }), ['1234', '1337']);
    assert.deepEqual(of({ runAsGroup: 4321 }), ['1337', '4321']);
    assert.deepEqual(of({ runAsUser: 0, runAsNonRoot: false, runAsGroup: 4321 }), ['1337', '4321']);
    assert.deepEqual(of({ runAsUser: 1234, runAsGroup: 0 }), ['1234', '1234']);
  }
});

test('a proxy that cannot be told apart from root is refused', () => {
  for (const injector of [...injectors, cni])
    assert.throws(
      () => injector.inject(podWith({ runAsUser: 0, runAsGroup: 0 }), 'shop'),
      (error) =>
        error instanceof CtlError &&
        error.code === 'invalid_argument' &&
        error
          .oneLine()
          .startsWith('spec.containers[mesh-proxy].securityContext: expected a user or group other than 0'),
    );
});

test('with TPROXY the proxy stays root, and is exempted by its group', () => {
  for (const injector of [...injectors, cni]) {
    const pod = podWith({ runAsUser: 1234, runAsGroup: 4321, runAsNonRoot: true }, TPROXY);
    const result = injector.inject(pod, 'shop');
    assert.ok(result.kind === 'injected');
    assert.match(result.warnings.join(), /securityContext\.runAsUser: no effect with interceptionMode TPROXY/);
    const { runAsUser, runAsGroup, runAsNonRoot } = recordOf(containerOf(result.pod, 'mesh-proxy').securityContext);
    assert.deepEqual([runAsUser, runAsGroup, runAsNonRoot], [0, 4321, false]);
    assert.deepEqual(exempted(result.pod, injector === cni ? 'mesh-validation' : 'mesh-init'), ['1337', '4321']);
    assert.deepEqual(injected(injector, result.pod), result.pod);
  }
});

test('the validation runs as the user of the proxy, before everything else', () => {
  const first = injected(cni, podWith({ runAsUser: 1234 }, {}, [{ name: 'own' }]));
  const names = recordsOf(recordOf(first.spec).initContainers).map(({ name }) => name);
  assert.deepEqual(names, ['mesh-validation', 'mesh-proxy', 'own']);
  const { runAsUser, runAsGroup, runAsNonRoot } = recordOf(containerOf(first, 'mesh-validation').securityContext);
  assert.deepEqual([runAsUser, runAsGroup, runAsNonRoot], [1234, 1337, true]);
  assert.deepEqual(exempted(first, 'mesh-validation'), ['1234', '1337']);
  assert.deepEqual(injected(cni, first), first);
});

test('other arguments of a container of the Pod are not changed, and an application with that user causes a warning', () => {
  const own = { name: 'mesh-init', image: 'auto', args: ['true', '-u', '7'] };
  const [injector] = injectors;
  assert.ok(injector !== undefined);
  const pod = injected(injector, podWith({ runAsUser: 1234 }, {}, [own]));
  assert.deepEqual(containerOf(pod, 'mesh-init').args, own.args);
  const same = podWith({ runAsUser: 1234 });
  const spec = { ...recordOf(same.spec), securityContext: { runAsUser: 1234 } };
  const result = injector.inject({ ...same, spec }, 'shop');
  assert.ok(result.kind === 'injected');
  assert.match(result.warnings.join(), /spec\.containers\[app\]: runs as user 1234, whose traffic bypasses the proxy/);
});
