import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { isRefusedAddress } from './addresses.ts';

const hexOf = (high: string, low: string): string => (Number(high) * 256 + Number(low)).toString(16);

/** Every way to write an IPv4 address inside an IPv6 one. */
function formsOf(ipv4: string): string[] {
  const [a = '', b = '', c = '', d = ''] = ipv4.split('.');
  const [ab, cd] = [hexOf(a, b), hexOf(c, d)];
  return [
    `::ffff:${ipv4}`,
    `::ffff:${ab}:${cd}`,
    `0:0:0:0:0:FFFF:${ab}:${cd}`,
    `::${ab}:${cd}`,
    `::ffff:0:${ab}:${cd}`,
    `64:ff9b::${ab}:${cd}`,
    `64:ff9b::${ipv4}`,
    `64:ff9b:1::${ipv4}`,
    `64:ff9b:1:${ab}:${hexOf('0', c)}:${hexOf(d, '0')}::`,
    `2002:${ab}:${cd}::1`,
  ];
}

const METADATA = ['169.254.169.254', '169.254.170.2', '100.100.100.200', '168.63.129.16', '192.0.0.192'];

const REFUSED: readonly string[] = [
  ...METADATA,
  ...METADATA.flatMap(formsOf),
  '0.0.0.0',
  '0.1.2.3',
  '169.254.0.0',
  '169.254.255.255',
  '224.0.0.1',
  '239.255.255.255',
  '240.0.0.1',
  '255.255.255.255',
  '::',
  '::0.0.0.0',
  '::ffff:0.0.0.0',
  'fe80::1',
  'fe80::1%eth0',
  'febf:ffff::1',
  'fd00:ec2::254',
  'fd00:0ec2:0:0::0254',
  'fd00:ec2::23',
  'fd20:ce::254',
  'ff02::1',
  '2001:0:1::1',
  '',
  'localhost',
  '169.254.169.254.',
  '1.2.3',
];

const ALLOWED: readonly string[] = [
  '127.0.0.1',
  '::1',
  '::ffff:127.0.0.1',
  '10.0.0.1',
  '172.16.0.1',
  '192.168.1.1',
  '100.64.0.1',
  '169.253.255.255',
  '169.255.0.0',
  '8.8.8.8',
  '223.255.255.255',
  'fd00::1',
  'fd00:ec3::254',
  'fec0::1',
  '2606:4700::1111',
  '2001:4860:4860::8888',
  '64:ff9b::8.8.8.8',
  '2002:808:808::1',
];

describe('the address of a key server', () => {
  for (const address of REFUSED) {
    it(`may not be ${JSON.stringify(address)}`, () => assert.equal(isRefusedAddress(address), true));
  }

  for (const address of ALLOWED) {
    it(`may be ${address}`, () => assert.equal(isRefusedAddress(address), false));
  }

  it('is refused in every form of IPv6 when it is refused as IPv4, and only then', () => {
    fc.assert(
      fc.property(fc.ipV4(), (ipv4) => {
        // Two of the forms have another meaning for few addresses: the unspecified and the loopback address of IPv6.
        fc.pre(!ipv4.startsWith('0.0.'));
        for (const form of formsOf(ipv4).slice(0, 7))
          assert.equal(isRefusedAddress(form), isRefusedAddress(ipv4), form);
      }),
    );
  });
});
