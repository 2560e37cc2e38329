/** Codes about injection and Pods. */
import type { Message } from '../types.ts';

const namespace = (labels: string): string => `
apiVersion: v1
kind: Namespace
metadata: { name: shop, labels: { ${labels} } }`;

const deployment = (spec: string): string => `
apiVersion: apps/v1
kind: Deployment
metadata: { name: cart, namespace: shop }
spec:
  template:
    metadata: { labels: { app: cart } }
    spec: { ${spec} }`;

const webhook = (name: string): string => `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: { name: ${name} }
webhooks:
- name: sidecar-injector.mesh.io
  clientConfig: { service: { namespace: mesh-system, name: meshd } }
  namespaceSelector: { matchLabels: { mesh-injection: enabled } }`;

const MESHD = `
apiVersion: v1
kind: Service
metadata: { name: meshd, namespace: mesh-system }
spec: { ports: [{ name: https-webhook, port: 443 }] }`;

export const WORKLOAD_MESSAGES = {
  IST0102: {
    level: 'Info',
    name: 'NamespaceNotInjected',
    meaning: 'The labels of a Namespace do not say whether its Pods get a sidecar. They get none.',
    example: `
apiVersion: v1
kind: Namespace
metadata: { name: shop }`,
    mended: namespace('mesh-injection: enabled'),
  },
  IST0103: {
    level: 'Warning',
    name: 'PodMissingProxy',
    meaning: 'A Pod has no sidecar although its namespace is injected, because it is older than the label.',
    example: `${namespace('mesh-injection: enabled')}
---
apiVersion: v1
kind: Pod
metadata: { name: cart-1, namespace: shop }
spec: { containers: [{ name: cart }] }`,
    mended: `${namespace('mesh-injection: enabled')}
---
apiVersion: v1
kind: Pod
metadata: { name: cart-1, namespace: shop }
spec: { containers: [{ name: cart }, { name: mesh-proxy }] }`,
  },
  IST0123: {
    level: 'Warning',
    name: 'NamespaceMultipleInjectionLabels',
    meaning: 'A Namespace has several labels of injection, which may select different control planes.',
    example: namespace('mesh-injection: enabled, mesh.io/rev: canary'),
    mended: namespace('mesh.io/rev: canary'),
  },
  IST0139: {
    level: 'Error',
    name: 'InvalidWebhook',
    meaning: 'A webhook of the mesh calls a Service that does not exist, or two webhooks inject the same Pods.',
    manifests: true,
    example: webhook('mesh-injector'),
    mended: `${webhook('mesh-injector')}
---${MESHD}`,
  },
  IST0144: {
    level: 'Warning',
    name: 'InvalidApplicationUID',
    meaning: 'An application runs as user 1337, the user of the sidecar. Its connections bypass the mesh.',
    manifests: true,
    example: deployment('containers: [{ name: cart, image: cart, securityContext: { runAsUser: 1337 } }]'),
    mended: deployment('containers: [{ name: cart, image: cart, securityContext: { runAsUser: 1000 } }]'),
  },
  IST0146: {
    level: 'Warning',
    name: 'ImageAutoWithoutInjectionWarning',
    meaning: 'The image of a sidecar is `auto`, which injection replaces, and its Pods are not injected.',
    manifests: true,
    example: deployment('containers: [{ name: mesh-proxy, image: auto }]'),
    mended: `${deployment('containers: [{ name: mesh-proxy, image: auto }]')}
---${namespace('mesh-injection: enabled')}`,
  },
  IST0147: {
    level: 'Error',
    name: 'ImageAutoWithoutInjectionError',
    meaning: 'The image of the sidecar of a Pod is still `auto`: no webhook has injected it, and it cannot start.',
    manifests: true,
    example: `
apiVersion: v1
kind: Pod
metadata: { name: cart-1, namespace: shop }
spec: { containers: [{ name: mesh-proxy, image: auto }] }`,
    mended: `
apiVersion: v1
kind: Pod
metadata: { name: cart-1, namespace: shop }
spec: { containers: [{ name: mesh-proxy, image: "registry.example/meshd:1.0" }] }`,
  },
} as const satisfies Readonly<Record<string, Message>>;
