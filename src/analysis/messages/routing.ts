/** Codes about VirtualServices and DestinationRules. */
import type { Message } from '../types.ts';

const CART = `
apiVersion: v1
kind: Service
metadata: { name: cart, namespace: shop }
spec:
  clusterIP: 10.0.0.1
  selector: { app: cart }
  ports: [{ name: http, port: 80 }]`;

const CART_POD = `
apiVersion: v1
kind: Pod
metadata: { name: cart-1, namespace: shop, labels: { app: cart, version: v1, security.mesh.io/tlsMode: mesh } }
spec: { containers: [{ name: cart }, { name: mesh-proxy }] }
status: { phase: Running, podIP: 10.1.0.1 }
---
apiVersion: v1
kind: Endpoints
metadata: { name: cart, namespace: shop }
subsets:
- addresses: [{ ip: 10.1.0.1, targetRef: { kind: Pod, name: cart-1, namespace: shop } }]
  ports: [{ name: http, port: 8080 }]`;

const RULE = `
apiVersion: networking.mesh.io/v1alpha3
kind: DestinationRule
metadata: { name: cart, namespace: shop }`;

const ROUTE = `
apiVersion: networking.mesh.io/v1alpha3
kind: VirtualService
metadata: { name: cart, namespace: shop }`;

const toV1 = 'route: [{ destination: { host: cart, subset: v1 } }]';

export const ROUTING_MESSAGES = {
  IST0101: {
    level: 'Error',
    name: 'ReferencedResourceNotFound',
    meaning:
      'The document names something that does not exist: a host, a port or a subset of a route, a Gateway, a Secret, ' +
      'a namespace, or labels that no workload has.',
    example: `${ROUTE}
spec:
  hosts: [cart]
  http: [{ route: [{ destination: { host: kart } }] }]
---${CART}`,
    mended: `${ROUTE}
spec:
  hosts: [cart]
  http: [{ route: [{ destination: { host: cart } }] }]
---${CART}`,
  },
  IST0109: {
    level: 'Error',
    name: 'ConflictingMeshGatewayVirtualServiceHosts',
    meaning: 'Two VirtualServices have routes for one host inside of the mesh. Only those of the oldest one apply.',
    example: `${ROUTE}
spec:
  hosts: [cart]
  http: [{ ${'route: [{ destination: { host: cart } }]'} }]
---
apiVersion: networking.mesh.io/v1alpha3
kind: VirtualService
metadata: { name: cart-timeout, namespace: shop }
spec:
  hosts: [cart.shop.svc.cluster.local]
  http: [{ timeout: 1s, route: [{ destination: { host: cart } }] }]
---${CART}`,
    mended: `${ROUTE}
spec:
  hosts: [cart]
  http: [{ timeout: 1s, route: [{ destination: { host: cart } }] }]
---${CART}`,
  },
  IST0112: {
    level: 'Error',
    name: 'VirtualServiceDestinationPortSelectorRequired',
    meaning: 'A route leads to a service with several ports and names none of them.',
    example: `${ROUTE}
spec:
  hosts: [cart]
  http: [{ route: [{ destination: { host: cart } }] }]
---
apiVersion: v1
kind: Service
metadata: { name: cart, namespace: shop }
spec:
  ports: [{ name: http, port: 80 }, { name: http-admin, port: 81 }]`,
    mended: `${ROUTE}
spec:
  hosts: [cart]
  http: [{ route: [{ destination: { host: cart, port: { number: 80 } } }] }]
---
apiVersion: v1
kind: Service
metadata: { name: cart, namespace: shop }
spec:
  ports: [{ name: http, port: 80 }, { name: http-admin, port: 81 }]`,
  },
  IST0130: {
    level: 'Warning',
    name: 'VirtualServiceUnreachableRule',
    meaning: 'A rule is never used, because earlier rules match everything that it matches.',
    example: `${ROUTE}
spec:
  hosts: [cart]
  http:
  - route: [{ destination: { host: cart } }]
  - match: [{ uri: { prefix: /admin } }]
    directResponse: { status: 403 }
---${CART}`,
    mended: `${ROUTE}
spec:
  hosts: [cart]
  http:
  - match: [{ uri: { prefix: /admin } }]
    directResponse: { status: 403 }
  - route: [{ destination: { host: cart } }]
---${CART}`,
  },
  IST0131: {
    level: 'Info',
    name: 'VirtualServiceIneffectiveMatch',
    meaning: 'A match of a rule is never used, because an earlier one matches at least as much.',
    example: `${ROUTE}
spec:
  hosts: [cart]
  http:
  - match: [{ uri: { prefix: /api } }]
    route: [{ destination: { host: cart } }]
  - match: [{ uri: { prefix: /api/v2 } }, { uri: { exact: /health } }]
    directResponse: { status: 403 }
---${CART}`,
    mended: `${ROUTE}
spec:
  hosts: [cart]
  http:
  - match: [{ uri: { prefix: /api/v2 } }, { uri: { exact: /health } }]
    directResponse: { status: 403 }
  - match: [{ uri: { prefix: /api } }]
    route: [{ destination: { host: cart } }]
---${CART}`,
  },
  IST0140: {
    level: 'Warning',
    name: 'IngressRouteRulesNotAffected',
    meaning:
      'Routes of a gateway lead to a host for which another VirtualService chooses subsets. That choice applies to ' +
      'callers inside of the mesh, not to requests of the gateway.',
    example: `${ROUTE}
spec:
  hosts: [cart.shop.svc.cluster.local]
  http: [{ ${toV1} }]
---
apiVersion: networking.mesh.io/v1alpha3
kind: VirtualService
metadata: { name: public, namespace: shop }
spec:
  hosts: [shop.example.com]
  gateways: [public]
  http: [{ route: [{ destination: { host: cart } }] }]
---${RULE}
spec: { host: cart, subsets: [{ name: v1, labels: { version: v1 } }] }
---${CART}`,
    mended: `${ROUTE}
spec:
  hosts: [cart.shop.svc.cluster.local]
  http: [{ ${toV1} }]
---
apiVersion: networking.mesh.io/v1alpha3
kind: VirtualService
metadata: { name: public, namespace: shop }
spec:
  hosts: [shop.example.com]
  gateways: [public]
  http: [{ ${toV1} }]
---${RULE}
spec: { host: cart, subsets: [{ name: v1, labels: { version: v1 } }] }
---${CART}`,
  },
  IST0113: {
    level: 'Error',
    name: 'MTLSPolicyConflict',
    meaning:
      'Clients use TLS settings that a workload of the host does not accept by its PeerAuthentication: calls fail.',
    example: `${RULE}
spec: { host: cart, trafficPolicy: { tls: { mode: DISABLE } } }
---
apiVersion: security.mesh.io/v1beta1
kind: PeerAuthentication
metadata: { name: default, namespace: shop }
spec: { mtls: { mode: STRICT } }
---${CART}
---${CART_POD}`,
    mended: `${RULE}
spec: { host: cart, trafficPolicy: { tls: { mode: MESH_MUTUAL } } }
---
apiVersion: security.mesh.io/v1beta1
kind: PeerAuthentication
metadata: { name: default, namespace: shop }
spec: { mtls: { mode: STRICT } }
---${CART}
---${CART_POD}`,
  },
  IST0115: {
    level: 'Error',
    name: 'DestinationRuleUsesMTLSForWorkloadWithoutSidecar',
    meaning: 'Clients use mutual TLS of the mesh with a workload that has no proxy: calls fail.',
    example: `${RULE}
spec: { host: cart, trafficPolicy: { tls: { mode: MESH_MUTUAL } } }
---${CART}
---${CART_POD.replace(', security.mesh.io/tlsMode: mesh', '').replace(', { name: mesh-proxy }', '')}`,
    mended: `${RULE}
spec: { host: cart, trafficPolicy: { tls: { mode: MESH_MUTUAL } } }
---${CART}
---${CART_POD}`,
  },
  IST0128: {
    level: 'Warning',
    name: 'NoServerCertificateVerificationDestinationLevel',
    meaning: 'TLS to the host has no caCertificates, so that nothing verifies its certificate.',
    example: `${RULE}
spec: { host: cart, trafficPolicy: { tls: { mode: SIMPLE } } }`,
    mended: `${RULE}
spec: { host: cart, trafficPolicy: { tls: { mode: SIMPLE, caCertificates: /etc/ssl/certs/ca-certificates.crt } } }`,
  },
  IST0129: {
    level: 'Warning',
    name: 'NoServerCertificateVerificationPortLevel',
    meaning: 'TLS to a port of the host has no caCertificates, so that nothing verifies its certificate.',
    example: `${RULE}
spec:
  host: cart
  trafficPolicy: { portLevelSettings: [{ port: { number: 443 }, tls: { mode: SIMPLE } }] }`,
    mended: `${RULE}
spec:
  host: cart
  trafficPolicy:
    portLevelSettings:
    - port: { number: 443 }
      tls: { mode: SIMPLE, caCertificates: /etc/ssl/certs/ca-certificates.crt }`,
  },
  IST0173: {
    level: 'Error',
    name: 'DestinationRuleSubsetNotSelectPods',
    meaning: 'No workload has the labels of a subset: requests to it are answered with HTTP 503.',
    example: `${RULE}
spec: { host: cart, subsets: [{ name: v2, labels: { version: v2 } }] }
---${CART}
---${CART_POD}`,
    mended: `${RULE}
spec: { host: cart, subsets: [{ name: v1, labels: { version: v1 } }] }
---${CART}
---${CART_POD}`,
  },
  IST0174: {
    level: 'Warning',
    name: 'UnknownDestinationRuleHost',
    meaning: 'The rule is for a host that no service of the mesh has: it applies to nothing.',
    example: `${RULE}
spec: { host: kart }
---${CART}`,
    mended: `${RULE}
spec: { host: cart }
---${CART}`,
  },
} as const satisfies Readonly<Record<string, Message>>;
