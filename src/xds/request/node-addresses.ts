/** The addresses of a proxy: first the one in its ID, then INSTANCE_IPS. */
import { isIP } from 'node:net';
import { invalid } from './node-error.ts';

export const MAX_ADDRESSES = 64;

function checkedAddress(text: string, field: string): string {
  // A zone (`fe80::1%eth0`) has no meaning outside its host.
  if (isIP(text) === 0 || text.includes('%'))
    throw invalid(`${JSON.stringify(text.slice(0, 64))} is not an IP address`, field);
  return text.toLowerCase();
}

/**
 * fe80::/10. Istio 1.7's agent reports them. No listener can bind to such an address without its zone, and a machine
 * without another IPv6 address does not count as dual-stack.
 */
const LINK_LOCAL = /^fe[89ab][0-9a-f]:/;

export function addressesOf(idAddress: string, instanceIps: string): string[] {
  const addresses = new Set<string>();
  if (idAddress !== '') addresses.add(checkedAddress(idAddress, 'node.id'));
  for (const part of instanceIps.split(',')) {
    const text = part.trim();
    const address = text === '' ? '' : checkedAddress(text, 'node.metadata.INSTANCE_IPS');
    if (address !== '' && !LINK_LOCAL.test(address)) addresses.add(address);
    if (addresses.size > MAX_ADDRESSES)
      throw invalid(`more than ${MAX_ADDRESSES} addresses`, 'node.metadata.INSTANCE_IPS');
  }
  return [...addresses];
}
