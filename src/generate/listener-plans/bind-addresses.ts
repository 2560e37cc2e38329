/** The addresses that listeners bind: those of services, the unspecified address, and unix domain sockets. */
import type { Memos } from '../../core/memo.ts';
import type { Service } from '../../model/index.ts';
import { addressKey, isRange } from '../common/index.ts';

/** An address that a listener binds, with one key for all of its notations, or an address range. */
export type ServiceAddress = { readonly bind: string; readonly key: string } | { readonly range: string };

/** The addresses of a service, parsed once, and their ranges. */
export function addressesOf(memos: Memos, service: Service): readonly ServiceAddress[] {
  return memos.weak<Service, readonly ServiceAddress[]>('addresses of services').get(service, () => {
    const addresses = service.addresses.filter((address) => !isUnspecified(address));
    return addresses.map((address): ServiceAddress => {
      const bind = hostOf(address);
      return isRange(address) ? { range: address } : { bind, key: addressKey(bind) };
    });
  });
}

/** Whether an address stands for all addresses of the machine. */
export function isUnspecified(address: string): boolean {
  return address === '0.0.0.0' || address === '::';
}

/** `unix:///path` → `/path`, `unix://@name` → `@name`. */
export function socketPath(bind: string): string | undefined {
  return bind.startsWith('unix://') ? bind.slice('unix://'.length) : undefined;
}

/** An address without the prefix length of a single address. */
function hostOf(address: string): string {
  return address.split('/', 1)[0] ?? address;
}
