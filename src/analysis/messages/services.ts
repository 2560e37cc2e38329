/** Codes about Services, ServiceEntries and networks. */
import type { Message } from '../types.ts';

const entry = (name: string, protocol: string, more = ''): string => `
apiVersion: networking.mesh.io/v1alpha3
kind: ServiceEntry
metadata: { name: ${name}, namespace: shop }
spec:
  hosts: [payments.example.com]
  ports: [{ number: 443, name: pay, protocol: ${protocol} }]
  resolution: DNS${more}`;

const service = (name: string, ports: string): string => `
apiVersion: v1
kind: Service
metadata: { name: ${name}, namespace: shop }
spec: { selector: { app: cart }, ports: [${ports}] }`;

const DEPLOYMENT = `
apiVersion: v1
kind: Namespace
metadata: { name: shop, labels: { mesh-injection: enabled } }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: cart, namespace: shop }
spec:
  template:
    metadata: { labels: { app: cart } }
    spec: { containers: [{ name: cart, image: cart }] }`;

export const SERVICE_MESSAGES = {
  IST0116: {
    level: 'Warning',
    name: 'DeploymentAssociatedToMultipleServices',
    meaning: 'Services of one Deployment give a port different protocols. Its proxies can serve only one of them.',
    manifests: true,
    example: `${DEPLOYMENT}
---${service('cart', '{ name: http, port: 80 }')}
---${service('cart-udp', '{ name: udp, port: 80, protocol: UDP }')}`,
    mended: `${DEPLOYMENT}
---${service('cart', '{ name: http, port: 80 }')}
---${service('cart-udp', '{ name: udp, port: 81, protocol: UDP }')}`,
  },
  IST0118: {
    level: 'Info',
    name: 'PortNameIsNotUnderNamingConvention',
    meaning:
      'Neither the name of a port (`http-web`) nor its appProtocol names a protocol. Proxies detect it, which delays ' +
      'protocols in which the server speaks first.',
    example: service('cart', '{ name: web, port: 80 }'),
    mended: service('cart', '{ name: http-web, port: 80 }'),
  },
  IST0126: {
    level: 'Error',
    name: 'UnknownMeshNetworksServiceRegistry',
    meaning: 'A network of the mesh networks has the endpoints of a registry (a cluster) that nothing is read from.',
    example: `
# The file of --networksConfig
networks:
  east:
    endpoints: [{ fromRegistry: cluster-est }]
    gateways: [{ address: 192.0.2.1, port: 15443 }]`,
    mended: `
# The file of --networksConfig
networks:
  east:
    endpoints: [{ fromRegistry: Orchestrator }]
    gateways: [{ address: 192.0.2.1, port: 15443 }]`,
  },
  IST0134: {
    level: 'Warning',
    name: 'ServiceEntryAddressesRequired',
    meaning: 'A TCP port of a ServiceEntry without addresses matches connections to every address.',
    example: entry('payments', 'TCP'),
    mended: entry('payments', 'TCP', '\n  addresses: [192.0.2.10]'),
  },
  IST0137: {
    level: 'Warning',
    name: 'DeploymentConflictingPorts',
    meaning: 'Services of one Deployment have different ports for one target port, with one protocol at the proxy.',
    manifests: true,
    example: `${DEPLOYMENT}
---${service('cart', '{ name: http, port: 80, targetPort: 8080 }')}
---${service('cart-alt', '{ name: http, port: 81, targetPort: 8080 }')}`,
    mended: `${DEPLOYMENT}
---${service('cart', '{ name: http, port: 80, targetPort: 8080 }')}
---${service('cart-alt', '{ name: http, port: 80, targetPort: 8080 }')}`,
  },
  IST0150: {
    level: 'Warning',
    name: 'ExternalNameServiceTypeInvalidPortName',
    meaning: 'A TCP port of an ExternalName Service, which has no address, matches connections to every address.',
    example: `
apiVersion: v1
kind: Service
metadata: { name: payments, namespace: shop }
spec: { type: ExternalName, externalName: payments.example.com, ports: [{ name: tcp, port: 443 }] }`,
    mended: `
apiVersion: v1
kind: Service
metadata: { name: payments, namespace: shop }
spec: { type: ExternalName, externalName: payments.example.com, ports: [{ name: https, port: 443 }] }`,
  },
  IST0177: {
    level: 'Warning',
    name: 'ConflictingServiceEntryProtocol',
    meaning: 'Two ServiceEntries give a port of one host different protocols. That of the oldest one applies.',
    example: `${entry('payments', 'TLS')}
---${entry('payments-plain', 'HTTP')}`,
    mended: `${entry('payments', 'TLS')}
---${entry('payments-plain', 'TLS')}`,
  },
} as const satisfies Readonly<Record<string, Message>>;
