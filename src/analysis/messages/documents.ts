/** Codes about single documents. */
import type { Message } from '../types.ts';

export const DOCUMENT_MESSAGES = {
  IST0002: {
    level: 'Warning',
    name: 'Deprecated',
    meaning: 'A field is deprecated, or the document is of an API that no longer exists and has no effect.',
    manifests: true,
    example: `
apiVersion: networking.mesh.io/v1alpha3
kind: VirtualService
metadata: { name: cart, namespace: shop }
spec:
  hosts: [cart.example.com]
  http:
  - fault: { delay: { percent: 5, fixedDelay: 1s } }
    directResponse: { status: 503 }`,
    mended: `
apiVersion: networking.mesh.io/v1alpha3
kind: VirtualService
metadata: { name: cart, namespace: shop }
spec:
  hosts: [cart.example.com]
  http:
  - fault: { delay: { percentage: { value: 5 }, fixedDelay: 1s } }
    directResponse: { status: 503 }`,
  },
  IST0106: {
    level: 'Error',
    name: 'SchemaValidationError',
    meaning: 'The document is refused. Its last good version stays in force.',
    example: `
apiVersion: networking.mesh.io/v1alpha3
kind: Gateway
metadata: { name: shop, namespace: shop }
spec:
  servers:
  - port: { number: 80000, name: http, protocol: HTTP }
    hosts: [shop.example.com]`,
    mended: `
apiVersion: networking.mesh.io/v1alpha3
kind: Gateway
metadata: { name: shop, namespace: shop }
spec:
  servers:
  - port: { number: 8080, name: http, protocol: HTTP }
    hosts: [shop.example.com]`,
  },
  IST0133: {
    level: 'Warning',
    name: 'SchemaWarning',
    meaning:
      'A field of the document is unknown, wrong together with other documents, or has no effect in this version.' +
      ' The rest is in force.',
    example: `
apiVersion: networking.mesh.io/v1alpha3
kind: Sidecar
metadata: { name: default, namespace: shop }
spec:
  egress:
  - hosts: [./*]
    comment: only our own services`,
    mended: `
apiVersion: networking.mesh.io/v1alpha3
kind: Sidecar
metadata: { name: default, namespace: shop }
spec:
  egress:
  - hosts: [./*]`,
  },
  IST0171: {
    level: 'Warning',
    name: 'NegativeConditionStatus',
    meaning:
      'The status of the document says that it is not in effect: proxies have not acknowledged it, or reject it, or ' +
      'a Gateway does not take it.',
    manifests: true,
    example: `
apiVersion: networking.mesh.io/v1alpha3
kind: Sidecar
metadata: { name: default, namespace: shop }
spec: { egress: [{ hosts: [./*] }] }
status: { conditions: [{ type: Reconciled, status: "False", reason: Pending, message: not yet }] }`,
    mended: `
apiVersion: networking.mesh.io/v1alpha3
kind: Sidecar
metadata: { name: default, namespace: shop }
spec: { egress: [{ hosts: [./*] }] }
status: { conditions: [{ type: Reconciled, status: "True", reason: Acknowledged, message: "" }] }`,
  },
  IST0107: {
    level: 'Warning',
    name: 'MisplacedAnnotation',
    meaning:
      'An annotation of the mesh is on a kind on which nothing reads it, such as a Deployment instead of its Pods.',
    manifests: true,
    example: `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: cart
  namespace: shop
  annotations: { sidecar.mesh.io/logLevel: debug }
spec:
  template:
    metadata: { labels: { app: cart } }
    spec: { containers: [{ name: cart, image: cart }] }`,
    mended: `
apiVersion: apps/v1
kind: Deployment
metadata: { name: cart, namespace: shop }
spec:
  template:
    metadata: { labels: { app: cart }, annotations: { sidecar.mesh.io/logLevel: debug } }
    spec: { containers: [{ name: cart, image: cart }] }`,
  },
  IST0108: {
    level: 'Warning',
    name: 'UnknownAnnotation',
    meaning: 'An annotation has a domain of the mesh and a name that nothing reads, often because it is misspelt.',
    manifests: true,
    example: `
apiVersion: v1
kind: Service
metadata:
  name: cart
  namespace: shop
  annotations: { networking.mesh.io/exportTto: "." }
spec: { ports: [{ name: http, port: 80 }] }`,
    mended: `
apiVersion: v1
kind: Service
metadata:
  name: cart
  namespace: shop
  annotations: { networking.mesh.io/exportTo: "." }
spec: { ports: [{ name: http, port: 80 }] }`,
  },
  IST0125: {
    level: 'Warning',
    name: 'InvalidAnnotation',
    meaning: 'The value of an annotation cannot be read. The webhook refuses Pods with it.',
    manifests: true,
    example: `
apiVersion: v1
kind: Pod
metadata:
  name: cart
  namespace: shop
  annotations: { readiness.status.sidecar.mesh.io/periodSeconds: often }
spec: { containers: [{ name: cart }] }`,
    mended: `
apiVersion: v1
kind: Pod
metadata:
  name: cart
  namespace: shop
  annotations: { readiness.status.sidecar.mesh.io/periodSeconds: "10" }
spec: { containers: [{ name: cart }] }`,
  },
  IST0135: {
    level: 'Info',
    name: 'DeprecatedAnnotation',
    meaning: 'An annotation has a newer form, which is preferred.',
    manifests: true,
    example: `
apiVersion: v1
kind: Pod
metadata:
  name: cart
  namespace: shop
  annotations: { sidecar.mesh.io/inject: "false" }
spec: { containers: [{ name: cart }] }`,
    mended: `
apiVersion: v1
kind: Pod
metadata:
  name: cart
  namespace: shop
  labels: { sidecar.mesh.io/inject: "false" }
spec: { containers: [{ name: cart }] }`,
  },
  IST0151: {
    level: 'Warning',
    name: 'EnvoyFilterUsesRelativeOperation',
    meaning: 'A patch depends on what other EnvoyFilters added or removed before, and no priority orders them.',
    example: `
apiVersion: networking.mesh.io/v1alpha3
kind: EnvoyFilter
metadata: { name: without-router, namespace: shop }
spec:
  configPatches:
  - applyTo: HTTP_FILTER
    match:
      listener:
        filterChain:
          filter:
            name: envoy.filters.network.http_connection_manager
            subFilter: { name: envoy.filters.http.cors }
    patch: { operation: REMOVE }`,
    mended: `
apiVersion: networking.mesh.io/v1alpha3
kind: EnvoyFilter
metadata: { name: without-router, namespace: shop }
spec:
  priority: 10
  configPatches:
  - applyTo: HTTP_FILTER
    match:
      listener:
        filterChain:
          filter:
            name: envoy.filters.network.http_connection_manager
            subFilter: { name: envoy.filters.http.cors }
    patch: { operation: REMOVE }`,
  },
  IST0152: {
    level: 'Error',
    name: 'EnvoyFilterUsesReplaceOperationIncorrectly',
    meaning: 'REPLACE is ignored: only filters can be replaced.',
    example: `
apiVersion: networking.mesh.io/v1alpha3
kind: EnvoyFilter
metadata: { name: clusters, namespace: shop }
spec:
  configPatches:
  - applyTo: CLUSTER
    patch: { operation: REPLACE, value: { name: other } }`,
    mended: `
apiVersion: networking.mesh.io/v1alpha3
kind: EnvoyFilter
metadata: { name: clusters, namespace: shop }
spec:
  configPatches:
  - applyTo: CLUSTER
    patch: { operation: MERGE, value: { respectDnsTtl: true } }`,
  },
  IST0153: {
    level: 'Error',
    name: 'EnvoyFilterUsesAddOperationIncorrectly',
    meaning: 'ADD is ignored for this target: there is no list to add to.',
    example: `
apiVersion: networking.mesh.io/v1alpha3
kind: EnvoyFilter
metadata: { name: routes, namespace: shop }
spec:
  configPatches:
  - applyTo: ROUTE_CONFIGURATION
    patch: { operation: ADD, value: { name: other } }`,
    mended: `
apiVersion: networking.mesh.io/v1alpha3
kind: EnvoyFilter
metadata: { name: routes, namespace: shop }
spec:
  configPatches:
  - applyTo: VIRTUAL_HOST
    patch: { operation: ADD, value: { name: other, domains: [other.example.com] } }`,
  },
  IST0154: {
    level: 'Error',
    name: 'EnvoyFilterUsesRemoveOperationIncorrectly',
    meaning: 'REMOVE is ignored for this target: a proxy needs it.',
    example: `
apiVersion: networking.mesh.io/v1alpha3
kind: EnvoyFilter
metadata: { name: routes, namespace: shop }
spec:
  configPatches:
  - applyTo: ROUTE_CONFIGURATION
    patch: { operation: REMOVE }`,
    mended: `
apiVersion: networking.mesh.io/v1alpha3
kind: EnvoyFilter
metadata: { name: routes, namespace: shop }
spec:
  priority: 10
  configPatches:
  - applyTo: VIRTUAL_HOST
    match: { routeConfiguration: { vhost: { name: "other.example.com:80" } } }
    patch: { operation: REMOVE }`,
  },
  IST0155: {
    level: 'Warning',
    name: 'EnvoyFilterUsesRelativeOperationWithProxyVersion',
    meaning: 'As IST0151, and another patch of the same filter applies to some versions of proxies only.',
    example: `
apiVersion: networking.mesh.io/v1alpha3
kind: EnvoyFilter
metadata: { name: lua, namespace: shop }
spec:
  configPatches:
  - applyTo: HTTP_FILTER
    match: { proxy: { proxyVersion: '^1\\.7.*' } }
    patch: { operation: INSERT_BEFORE, value: { name: envoy.filters.http.lua } }`,
    mended: `
apiVersion: networking.mesh.io/v1alpha3
kind: EnvoyFilter
metadata: { name: lua, namespace: shop }
spec:
  configPatches:
  - applyTo: HTTP_FILTER
    match: { proxy: { proxyVersion: '^1\\.7.*' } }
    patch: { operation: INSERT_FIRST, value: { name: envoy.filters.http.lua } }`,
  },
} as const satisfies Readonly<Record<string, Message>>;
