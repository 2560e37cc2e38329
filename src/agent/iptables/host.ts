/** Reads properties of the host's network namespace. */
import { readFile } from 'node:fs/promises';
import { CtlError, messageOf } from '../../core/errors.ts';
import { parseNameservers } from './dns-options.ts';
import { FAMILIES } from './footprint.ts';
import type { ProxyUser } from './options.ts';
import { mustRun, type Run } from './run.ts';
import type { Family } from './types.ts';

/** Reads a text file; undefined when it does not exist. */
export type ReadText = (path: string) => Promise<string | undefined>;

export const readText: ReadText = (path) => readFile(path, 'utf8').catch(() => undefined);

/**
 * The families to redirect: IPv6 if the namespace has it. When it has IPv6 but ip6tables does not work, that is an
 * error if there are IPv6 addresses, because their traffic would bypass the proxy; otherwise `warn` is called. Rejects
 * with CtlError.
 */
export async function usableFamilies(
  run: Run,
  read: ReadText,
  warn: (why: string) => void,
): Promise<readonly Family[]> {
  // Without iptables, or without permission, the user must see that error.
  await mustRun(run, FAMILIES.ipv4.save, ['-t', 'nat']);
  const addresses = await ipv6Addresses(read);
  if (addresses.length === 0) return ['ipv4'];
  const why = await run(FAMILIES.ipv6.save, ['-t', 'nat']).then(
    ({ code, stderr }) => (code === 0 ? undefined : (stderr.split('\n')[0] ?? `exit code ${code}`)),
    (error: unknown) => messageOf(error),
  );
  if (why === undefined) return ['ipv4', 'ipv6'];
  if (addresses.some(({ reachable }) => reachable)) {
    throw new CtlError('unavailable', `there are IPv6 addresses here, but IPv6 cannot be redirected: ${why}`);
  }
  warn(why);
  return ['ipv4'];
}

/** The families of the namespace, read from the kernel's files only. */
export async function presentFamilies(read: ReadText): Promise<readonly Family[]> {
  return (await ipv6Addresses(read)).length === 0 ? ['ipv4'] : ['ipv4', 'ipv6'];
}

/** `address index prefix scope flags interface`, hexadecimal; scope 00 is global (Linux include/net/ipv6.h). */
async function ipv6Addresses(read: ReadText): Promise<readonly { readonly reachable: boolean }[]> {
  const lines = ((await read('/proc/self/net/if_inet6')) ?? '').split('\n').filter((line) => line.trim() !== '');
  return lines.map((line) => {
    const [, , , scope, , name] = line.trim().split(/\s+/);
    return { reachable: scope === '00' && name !== 'lo' };
  });
}

/** A user of this host by name. */
export async function findUser(read: ReadText, name: string): Promise<ProxyUser | undefined> {
  const line = ((await read('/etc/passwd')) ?? '').split('\n').find((each) => each.startsWith(`${name}:`));
  const [, , uid, gid] = line?.split(':') ?? [];
  return uid === undefined || gid === undefined ? undefined : { uid, gid };
}

/** The name servers that programs of this host query. */
export async function findNameservers(read: ReadText): Promise<readonly string[]> {
  return parseNameservers((await read('/etc/resolv.conf')) ?? '');
}
