/** Settings and Pods for tests of injection. */
import type { InjectionSettings, Injector, PodObject } from '../../types.ts';

export const SETTINGS: InjectionSettings = {
  config: undefined,
  values: undefined,
  proxyConfig: {},
  enablePrometheusMerge: true,
  discoveryAddress: 'meshd.mesh-system.svc:15012',
  controlPlaneNamespace: 'mesh-system',
  trustDomain: 'cluster.local',
  domain: 'cluster.local',
  clusterId: 'Kubernetes',
  revision: '',
  jwtPolicy: 'third-party-jwt',
  image: 'registry.example/ctl-agent:1.0',
  rootConfigMap: 'mesh-ca-root-cert',
};

export function withConfig(text: string, values?: string): InjectionSettings {
  return {
    ...SETTINGS,
    config: { text, origin: 'config.yaml' },
    values: values === undefined ? undefined : { text: values, origin: 'values.yaml' },
  };
}

/** The injected Pod, in namespace `shop`. */
export function injected(injector: Injector, pod: PodObject): PodObject {
  const result = injector.inject(pod, 'shop');
  if (result.kind === 'injected') return result.pod;
  throw new Error(`skipped: ${result.reason}`);
}

/** A Pod of the Deployment `web` as its controller creates it. */
export function webPod(parts: { readonly metadata?: object; readonly spec?: object } = {}): PodObject {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      generateName: 'web-5d4f8c7b9-',
      labels: { app: 'web', 'pod-template-hash': '5d4f8c7b9' },
      ownerReferences: [
        { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web-5d4f8c7b9', uid: 'u', controller: true },
      ],
      ...parts.metadata,
    },
    spec: { containers: [{ name: 'app', image: 'app:1', ports: [{ containerPort: 8080 }] }], ...parts.spec },
  };
}
