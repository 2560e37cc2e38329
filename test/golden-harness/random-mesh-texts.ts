/** Resources of the random mesh as a user writes them. */

export function service(
  namespace: string,
  name: string,
  ip: string,
  ports: readonly number[],
  protocol = 'http',
): string {
  const list = ports.map((port) => `{name: ${protocol}-${port}, port: ${port}}`).join(', ');
  return `{apiVersion: v1, kind: Service, metadata: {name: ${name}, namespace: ${namespace}}, spec: {clusterIP: ${ip}, ports: [${list}]}}`;
}

/** A Service with a load balancer at these addresses. */
export function balanced(namespace: string, name: string, ingress: string): string {
  const spec = '{type: LoadBalancer, clusterIP: 10.97.0.8, ports: [{name: tls, port: 15443}]}';
  const status = `{loadBalancer: {ingress: [${ingress}]}}`;
  return `{apiVersion: v1, kind: Service, metadata: {name: ${name}, namespace: ${namespace}}, spec: ${spec}, status: ${status}}`;
}

/** A resource of another cluster. */
export function inCluster(cluster: string, made: string): string {
  return made.replace('{', `{cluster: ${cluster}, `);
}

export function endpoints(
  namespace: string,
  name: string,
  ips: readonly string[],
  ports: readonly number[],
  protocol = 'http',
): string {
  const addresses = ips.map((ip) => `{ip: ${ip}}`).join(', ');
  const list = ports.map((port) => `{name: ${protocol}-${port}, port: ${port}}`).join(', ');
  return `{apiVersion: v1, kind: Endpoints, metadata: {name: ${name}, namespace: ${namespace}}, subsets: [{addresses: [${addresses}], ports: [${list}]}]}`;
}

export function pod(
  namespace: string,
  name: string,
  ip: string,
  account: string,
  application = name.slice(0, -2),
): string {
  const labels = `{app: ${application}, security.mesh.io/tlsMode: mesh}`;
  return `{apiVersion: v1, kind: Pod, metadata: {name: ${name}, namespace: ${namespace}, labels: ${labels}}, spec: {serviceAccountName: ${account}}, status: {phase: Running, podIP: ${ip}}}`;
}

export function secret(name: string, entries: Readonly<Record<string, string>>): string {
  const stringData = JSON.stringify(entries);
  return `{apiVersion: v1, kind: Secret, metadata: {name: ${name}, namespace: b}, stringData: ${stringData}}`;
}

export function https(port: number, mode: string, credential: string): string {
  return `{port: {number: ${port}, name: https-${port}, protocol: HTTPS}, hosts: [e.example.com], tls: {mode: ${mode}, credentialName: ${credential}}}`;
}

export function security(kind: string, namespace: string, spec: string): string {
  return `{apiVersion: security.mesh.io/v1beta1, kind: ${kind}, metadata: {name: policy, namespace: ${namespace}}, spec: ${spec}}`;
}

export function policy(namespace: string, spec: string): string {
  return security('PeerAuthentication', namespace, spec);
}

export function exported(made: string, to: string): string {
  return made.replace('metadata: {', `metadata: {annotations: {networking.mesh.io/exportTo: "${to}"}, `);
}

/** Host names of a range of numbers, in the order of their names. */
export function bulkHosts(from: number, to: number): string {
  return Array.from({ length: to - from }, (_, index) => `n${String(from + index).padStart(3, '0')}.bulk.test`).join();
}

export function mesh(kind: string, namespace: string, name: string, spec: string): string {
  return `{apiVersion: networking.mesh.io/v1alpha3, kind: ${kind}, metadata: {name: ${name}, namespace: ${namespace}}, spec: ${spec}}`;
}

export function entry(name: string, resolution: string, rest: string): string {
  return entryIn('a', name, resolution, rest);
}

export function entryIn(namespace: string, name: string, resolution: string, rest: string): string {
  const ports = '[{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]';
  return mesh(
    'ServiceEntry',
    namespace,
    name,
    `${rest}, ports: ${ports}, location: MESH_EXTERNAL, resolution: ${resolution}}`,
  );
}

export function rule(namespace: string, name: string, spec: string): string {
  return mesh('DestinationRule', namespace, name, spec);
}

export function route(namespace: string, name: string, spec: string): string {
  return mesh('VirtualService', namespace, name, spec);
}

export function gateway(servers: string): string {
  return mesh('Gateway', 'b', 'edge', `{selector: {app: edge}, servers: ${servers}}`);
}

export function filter(namespace: string, spec: string): string {
  return mesh('EnvoyFilter', namespace, 'patches', spec);
}

export function sidecar(spec: string): string {
  return sidecarIn('c', 'default', spec);
}

export function sidecarIn(namespace: string, name: string, spec: string): string {
  return mesh('Sidecar', namespace, name, spec);
}
