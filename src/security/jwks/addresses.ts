/**
 * Decides which addresses a key server may have. The author of a RequestAuthentication chooses the URL, and the control
 * plane, which fetches it, may be in a network to which the author has no access, with a cloud metadata service that
 * returns credentials of the machine.
 *
 * Therefore, addresses that cannot belong to key servers, and those of metadata services are refused: link-local
 * addresses, addresses that clouds assign to their metadata services, multicast, reserved ranges, and every form of
 * IPv6 address that maps to one of them.
 *
 * Private ranges are allowed, because key servers in the cluster have such addresses and cannot be distinguished from
 * others; so is loopback, because key servers may run next to the control plane (in the same Pod, on a laptop, in
 * tests). The author of the URL never sees the response, except as keys.
 *
 * Source of the ranges: RFC 6890 and the IANA special-purpose registries; for the forms of IPv4 in IPv6 RFC 4291
 * section 2.5.5, RFC 6052 (NAT64), RFC 8215, RFC 2765 (translated), RFC 3056 (6to4), RFC 4380 (Teredo).
 */
import { BlockList, isIP } from 'node:net';

type Range = readonly [address: string, prefix: number];

const REFUSED_IPV4: readonly Range[] = [
  ['0.0.0.0', 8], // "this host": also reaches loopback
  ['169.254.0.0', 16], // link-local, with the metadata services of AWS, Google Cloud and Azure
  ['100.100.100.200', 32], // metadata of Alibaba Cloud
  ['168.63.129.16', 32], // the host agent of Azure
  ['192.0.0.192', 32], // metadata of Oracle Cloud
  ['224.0.0.0', 4], // multicast
  ['240.0.0.0', 4], // reserved, broadcast
];

const REFUSED_IPV6: readonly Range[] = [
  ['::', 128], // "this host"
  ['fe80::', 10], // link-local
  ['fd00:ec2::', 32], // metadata of AWS, and its other services on the host
  ['fd20:ce::254', 128], // metadata of Google Cloud
  ['ff00::', 8], // multicast
  ['2001::', 32], // Teredo: a tunnel through any server that the address names
];

/** The positions of an IPv4 address inside an IPv6 address: the prefix, and the indexes of the four bytes. */
const EMBEDDED: readonly (readonly [Range, bytes: readonly number[]])[] = [
  [
    ['::', 96],
    [12, 13, 14, 15],
  ], // compatible (deprecated)
  [
    ['::ffff:0:0', 96],
    [12, 13, 14, 15],
  ], // mapped
  [
    ['::ffff:0:0:0', 96],
    [12, 13, 14, 15],
  ], // translated
  [
    ['64:ff9b::', 96],
    [12, 13, 14, 15],
  ], // NAT64
  // NAT64 in a network's own range, with each length of prefix that fits in it.
  [
    ['64:ff9b:1::', 48],
    [6, 7, 9, 10],
  ],
  [
    ['64:ff9b:1::', 48],
    [7, 9, 10, 11],
  ],
  [
    ['64:ff9b:1::', 48],
    [9, 10, 11, 12],
  ],
  [
    ['64:ff9b:1::', 48],
    [12, 13, 14, 15],
  ],
  [
    ['2002::', 16],
    [2, 3, 4, 5],
  ], // 6to4
];

function listOf(family: 'ipv4' | 'ipv6', ranges: readonly Range[]): BlockList {
  const list = new BlockList();
  for (const [address, prefix] of ranges) list.addSubnet(address, prefix, family);
  return list;
}

const IPV4 = listOf('ipv4', REFUSED_IPV4);
const IPV6 = listOf('ipv6', REFUSED_IPV6);
const FORMS = EMBEDDED.map(([range, bytes]) => ({ within: listOf('ipv6', [range]), bytes }));

/** The 16 bytes of a valid IPv6 address without zone. */
function bytesOf(address: string): Buffer {
  const dotted = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(address);
  const [, start = '', ...four] = dotted ?? [];
  const hex = (high = '', low = ''): string => (Number(high) * 256 + Number(low)).toString(16);
  const text = dotted === null ? address : `${start}${hex(four[0], four[1])}:${hex(four[2], four[3])}`;
  const [head = '', tail] = text.split('::');
  const groups = (part: string): string[] => (part === '' ? [] : part.split(':'));
  const before = groups(head);
  const after = groups(tail ?? '');
  const zeros = tail === undefined ? [] : Array<string>(8 - before.length - after.length).fill('0');
  return Buffer.from([...before, ...zeros, ...after].map((group) => group.padStart(4, '0')).join(''), 'hex');
}

/** True for an address that must not be connected to, and for a string that is not an address. */
export function isRefusedAddress(text: string): boolean {
  const address = text.replace(/%.*$/, '');
  const family = isIP(address);
  if (family === 4) return IPV4.check(address, 'ipv4');
  if (family !== 6 || IPV6.check(address, 'ipv6')) return true;
  if (address === '::1') return false;
  const bytes = bytesOf(address);
  return FORMS.some(
    (form) =>
      form.within.check(address, 'ipv6') && IPV4.check(form.bytes.map((at) => bytes[at] ?? 0).join('.'), 'ipv4'),
  );
}
