/**
 * Checksums of gzip that are joined: that of two pieces follows from those of the pieces, whatever their length. A
 * CRC-32 is the remainder of a division of polynomials over GF(2), in which bytes that follow are a multiplication by a
 * power of x. Source: RFC 1952 section 8 (the polynomial, and its reflected bits)
 */

/** The polynomial, without its highest term; the highest bit is the coefficient of x^0. */
const POLYNOMIAL = 0xedb88320;
const ONE = 0x80000000;
/** x^8: one byte follows. */
const ONE_BYTE = 0x00800000;

/** The product of two polynomials, modulo the polynomial of the checksum. */
function product(a: number, b: number): number {
  let sum = 0;
  let shifted = b;
  for (let rest = a; rest !== 0; rest <<= 1) {
    if (rest < 0 || rest >= ONE) sum ^= shifted;
    shifted = (shifted & 1) === 0 ? shifted >>> 1 : (shifted >>> 1) ^ POLYNOMIAL;
  }
  return sum;
}

/** What the checksum of a piece is multiplied by when so many bytes follow it. */
export function factorOf(bytes: number): number {
  let factor = ONE;
  let power = ONE_BYTE;
  for (let rest = bytes; rest > 0; rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) factor = product(factor, power);
    power = product(power, power);
  }
  return factor;
}

/**
 * The CRC-32 of two pieces, one after the other.
 * @param factor that of the length of the second piece
 */
export function joinedChecksum(first: number, second: number, factor: number): number {
  return (product(first, factor) ^ second) >>> 0;
}
