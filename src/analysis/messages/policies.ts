/** Codes about policies and other documents that select workloads. */
import type { Message } from '../types.ts';

const pod = (labels: string): string => `
apiVersion: v1
kind: Pod
metadata: { name: cart-1, namespace: shop, labels: { ${labels} } }
spec: { containers: [{ name: cart }, { name: mesh-proxy }] }`;

const sidecar = (name: string, selector: string): string => `
apiVersion: networking.mesh.io/v1alpha3
kind: Sidecar
metadata: { name: ${name}, namespace: shop }
spec: { ${selector}egress: [{ hosts: [./*] }] }`;

const telemetry = (name: string, selector: string): string => `
apiVersion: telemetry.mesh.io/v1
kind: Telemetry
metadata: { name: ${name}, namespace: shop }
spec: { ${selector}tracing: [{ randomSamplingPercentage: 1 }] }`;

const APP = 'workloadSelector: { labels: { app: cart } }, ';
const TIER = 'workloadSelector: { labels: { tier: web } }, ';

export const POLICY_MESSAGES = {
  IST0110: {
    level: 'Error',
    name: 'ConflictingSidecarWorkloadSelectors',
    meaning: 'Two Sidecars select one workload. Only one of them applies.',
    example: `${sidecar('cart', APP)}
---${sidecar('web', TIER)}
---${pod('app: cart, tier: web')}`,
    mended: `${sidecar('cart', APP)}
---${pod('app: cart, tier: web')}`,
  },
  IST0111: {
    level: 'Error',
    name: 'MultipleSidecarsWithoutWorkloadSelectors',
    meaning: 'Several Sidecars of a namespace apply to all of its workloads. Only one of them applies.',
    example: `${sidecar('default', '')}
---${sidecar('other', '')}`,
    mended: `${sidecar('default', '')}
---${sidecar('cart', APP)}
---${pod('app: cart')}`,
  },
  IST0127: {
    level: 'Warning',
    name: 'NoMatchingWorkloadsFound',
    meaning: 'A policy applies to no workload with a proxy.',
    example: `
apiVersion: security.mesh.io/v1beta1
kind: AuthorizationPolicy
metadata: { name: cart, namespace: shop }
spec: { selector: { matchLabels: { app: kart } }, action: DENY, rules: [{}] }
---${pod('app: cart')}`,
    mended: `
apiVersion: security.mesh.io/v1beta1
kind: AuthorizationPolicy
metadata: { name: cart, namespace: shop }
spec: { selector: { matchLabels: { app: cart } }, action: DENY, rules: [{}] }
---${pod('app: cart')}`,
  },
  IST0157: {
    level: 'Warning',
    name: 'InvalidTelemetryProvider',
    meaning: 'An entry of accessLogging names no provider, and no wider scope has a logger that it could apply to.',
    example: `
apiVersion: telemetry.mesh.io/v1
kind: Telemetry
metadata: { name: default, namespace: shop }
spec: { accessLogging: [{ filter: { expression: response.code >= 500 } }] }`,
    mended: `
apiVersion: telemetry.mesh.io/v1
kind: Telemetry
metadata: { name: default, namespace: shop }
spec: { accessLogging: [{ providers: [{ name: envoy }], filter: { expression: response.code >= 500 } }] }`,
  },
  IST0159: {
    level: 'Error',
    name: 'ConflictingTelemetryWorkloadSelectors',
    meaning: 'Two Telemetry documents select one workload. Only one of them applies.',
    example: `${telemetry('cart', 'selector: { matchLabels: { app: cart } }, ')}
---${telemetry('web', 'selector: { matchLabels: { tier: web } }, ')}
---${pod('app: cart, tier: web')}`,
    mended: `${telemetry('cart', 'selector: { matchLabels: { app: cart } }, ')}
---${pod('app: cart, tier: web')}`,
  },
  IST0160: {
    level: 'Error',
    name: 'MultipleTelemetriesWithoutWorkloadSelectors',
    meaning: 'Several Telemetry documents of a namespace apply to all of its workloads. Only one of them applies.',
    example: `${telemetry('default', '')}
---${telemetry('other', '')}`,
    mended: telemetry('default', ''),
  },
  IST0166: {
    level: 'Warning',
    name: 'IneffectiveSelector',
    meaning: 'A selector selects a proxy of a Gateway of the Gateway API. Policies are attached to it by targetRefs.',
    example: `
apiVersion: security.mesh.io/v1beta1
kind: AuthorizationPolicy
metadata: { name: edge, namespace: shop }
spec: { selector: { matchLabels: { app: cart } }, action: DENY, rules: [{}] }
---${pod('app: cart, gateway.networking.k8s.io/gateway-name: edge')}`,
    mended: `
apiVersion: security.mesh.io/v1beta1
kind: AuthorizationPolicy
metadata: { name: edge, namespace: shop }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: Gateway, name: edge }]
  action: DENY
  rules: [{}]
---${pod('app: cart, gateway.networking.k8s.io/gateway-name: edge')}`,
  },
} as const satisfies Readonly<Record<string, Message>>;
