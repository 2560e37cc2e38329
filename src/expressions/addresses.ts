/** IP addresses as bytes. */

/** 4 or 16 bytes in network order; undefined for a string that is no IP address. */
export function addressOf(text: string): Uint8Array | undefined {
  if (text.length > 45) return undefined;
  if (!text.includes(':')) return ipv4(text);
  return ipv6(text);
}

function ipv4(text: string): Uint8Array | undefined {
  const parts = text.split('.');
  if (parts.length !== 4 || !parts.every((part) => /^(?:0|[1-9]\d{0,2})$/.test(part) && Number(part) <= 255)) {
    return undefined;
  }
  return Uint8Array.from(parts, Number);
}

function ipv6(text: string): Uint8Array | undefined {
  // The dotted form of the last 32 bits (RFC 4291, section 2.2).
  const last = text.slice(text.lastIndexOf(':') + 1);
  const dotted = last.includes('.') ? ipv4(last) : undefined;
  if (last.includes('.') && dotted === undefined) return undefined;
  const whole =
    dotted === undefined
      ? text
      : `${text.slice(0, -last.length)}${hex(dotted[0], dotted[1])}:${hex(dotted[2], dotted[3])}`;
  const sides = whole.split('::');
  if (sides.length > 2) return undefined;
  const [front = [], back = []] = sides.map((side) => (side === '' ? [] : side.split(':')));
  if (![...front, ...back].every((group) => /^[0-9a-fA-F]{1,4}$/.test(group))) return undefined;
  const missing = 8 - front.length - back.length;
  if (sides.length === 1 ? missing !== 0 : missing < 1) return undefined;
  const groups = [...front, ...new Array<string>(missing).fill('0'), ...back].map((group) =>
    Number.parseInt(group, 16),
  );
  return Uint8Array.from(groups.flatMap((group) => [group >> 8, group & 0xff]));
}

const hex = (high = 0, low = 0): string => ((high << 8) | low).toString(16);

/** Whether two addresses are the same; an IPv4 address equals the IPv6 address that it is mapped to (RFC 4291). */
export function addressesEqual(one: Uint8Array, other: Uint8Array): boolean {
  const [a, b] = [unmapped(one), unmapped(other)];
  return a.length === b.length && a.every((byte, index) => byte === b[index]);
}

function unmapped(address: Uint8Array): Uint8Array {
  const mapped =
    address.length === 16 &&
    address[10] === 0xff &&
    address[11] === 0xff &&
    address.subarray(0, 10).every((b) => b === 0);
  return mapped ? address.subarray(12) : address;
}

/** As people write it: IPv4 dotted, IPv6 as RFC 5952. */
export function addressText(address: Uint8Array): string {
  const bytes = unmapped(address);
  if (bytes.length === 4) return bytes.join('.');
  const groups = Array.from({ length: 8 }, (_, index) => hex(bytes[2 * index], bytes[2 * index + 1]));
  return URL.parse(`http://[${groups.join(':')}]/`)?.hostname.slice(1, -1) ?? groups.join(':');
}
