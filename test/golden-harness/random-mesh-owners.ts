/** The parts of the random mesh in which namespaces name the addresses of others, or take the connections of a port. */
import { endpoints, mesh, route, service } from './random-mesh-texts.ts';

function takes(namespace: string, more: string, ...ports: readonly string[]): string {
  const list = ports.map((each) => {
    const [port = '', protocol = 'TCP'] = each.split(' ');
    const declared = protocol === 'any' ? '' : `, protocol: ${protocol}`;
    return `{number: ${port}, name: ${protocol.toLowerCase()}-${port}${declared}}`;
  });
  const fields = `hosts: [takes.${namespace}.test], ports: [${list.join()}], resolution: STATIC`;
  return mesh('ServiceEntry', namespace, 'takes', `{${fields}, endpoints: [{address: 192.0.2.66}]${more}}`);
}

function node(address: string): string {
  return `{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {addresses: [{type: InternalIP, address: ${address}}]}}`;
}

/** Each slot is one resource: absent, or in one of these forms. */
export const OWNER_SLOTS: readonly (readonly string[])[] = [
  [
    takes('d', '', '3306', '80 any'),
    takes('d', ', addresses: [10.0.0.0/16, 192.0.2.7]', '3306', '90 any'),
    takes('d', ', addresses: [10.0.1.1, 10.0.1.0/28]', '3306', '80'),
  ],
  [takes('c', '', '3306'), takes('c', ', addresses: [10.0.0.0/8]', '3306 any', '80 any')],
  [
    route(
      'd',
      'takes',
      '{hosts: [takes.d.test], tcp: [{match: [{destinationSubnets: [10.0.1.0/24, 192.0.2.7/32]}], route: [{destination: {host: s.example.com}}]}]}',
    ),
    route(
      'd',
      'takes',
      '{hosts: [takes.d.test, takes.c.test], tcp: [{route: [{destination: {host: s.example.com}}]}]}',
    ),
    route(
      'd',
      'takes',
      '{hosts: [10.0.0.1, pods], tcp: [{route: [{destination: {host: takes.d.test, port: {number: 80}}}]}]}',
    ),
  ],
  [service('d', 'pods', 'None', [3306], 'tcp'), service('d', 'pods', 'None', [3306, 80], 'any')],
  [
    endpoints('d', 'pods', ['10.0.1.1', '10.0.0.1', '192.0.2.7'], [3306], 'tcp'),
    endpoints('d', 'pods', ['10.0.1.2', '192.0.2.9'], [3306, 80], 'any'),
  ],
  [endpoints('default', 'kubernetes', ['192.0.2.7'], [6443], 'https'), endpoints('default', 'kubernetes', [], [6443])],
  [node('192.0.2.9'), node('10.0.1.2')],
];
