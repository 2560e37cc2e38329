/** Numbers of the DNS protocol (https://www.iana.org/assignments/dns-parameters). */

export const TYPE = {
  A: 1,
  CNAME: 5,
  SOA: 6,
  PTR: 12,
  AAAA: 28,
  OPT: 41,
  SVCB: 64,
  HTTPS: 65,
  ANY: 255,
} as const;

export const CLASS_IN = 1;

export const RCODE = {
  NOERROR: 0,
  FORMERR: 1,
  SERVFAIL: 2,
  NXDOMAIN: 3,
  NOTIMP: 4,
  REFUSED: 5,
  /** Extended (RFC 6891 section 6.1.3): its upper bits are in the OPT record. */
  BADVERS: 16,
} as const;

/** Bits of the second word of a message's header (RFC 1035 section 4.1.1, RFC 4035 section 3). */
export const FLAG = { QR: 0x8000, AA: 0x0400, TC: 0x0200, RD: 0x0100, RA: 0x0080, AD: 0x0020, CD: 0x0010 } as const;

export const HEADER_BYTES = 12;
/** The largest message over TCP, whose length has two bytes (RFC 1035 section 4.2.2). */
export const MAX_MESSAGE_BYTES = 65_535;
/** The largest response over UDP to a client that says nothing else (RFC 1035 section 4.2.1). */
export const MIN_UDP_BYTES = 512;
/** A UDP message of this size crosses every usual link unfragmented (https://www.dnsflagday.net/2020/). */
export const SAFE_UDP_BYTES = 1232;

/** The name of a response code in logs and metrics. */
export function rcodeName(rcode: number): string {
  return NAMES.get(rcode) ?? `RCODE${rcode}`;
}
const NAMES = new Map<number, string>(Object.entries(RCODE).map(([name, code]) => [code, name]));
