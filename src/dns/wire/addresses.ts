/** IP addresses in wire format. */

/** 4 or 16 bytes of a valid address, IPv6 with or without a zone. */
export function addressBytes(ip: string): Uint8Array {
  return ip.includes(':') ? ipv6Bytes(ip.replace(/%.*$/, '')) : ipv4Bytes(ip);
}

function ipv4Bytes(ip: string): Uint8Array {
  const bytes = new Uint8Array(4);
  let at = 0;
  for (let index = 0; index < ip.length; index++) {
    const digit = ip.charCodeAt(index) - 0x30;
    if (digit < 0) at++;
    else bytes[at] = (bytes[at] ?? 0) * 10 + digit;
  }
  return bytes;
}

function ipv6Bytes(ip: string): Uint8Array {
  const dotted = ip.lastIndexOf('.') < 0 ? undefined : addressBytes(ip.slice(ip.lastIndexOf(':') + 1));
  const [head = '', tail] = (dotted === undefined ? ip : `${ip.slice(0, ip.lastIndexOf(':') + 1)}0:0`).split('::');
  const groups = (text: string) => (text === '' ? [] : text.split(':')).map((group) => Number.parseInt(group, 16));
  const [first, last] = [groups(head), groups(tail ?? '')];
  const words = [...first, ...Array<number>(8 - first.length - last.length).fill(0), ...last];
  const bytes = Uint8Array.from(words.flatMap((word) => [word >> 8, word & 0xff]));
  if (dotted !== undefined) bytes.set(dotted, 12);
  return bytes;
}
