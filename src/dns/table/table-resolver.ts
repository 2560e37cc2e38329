/** Answers the names of the mesh from a name table. */
import { CtlError } from '../../core/errors.ts';
import type { DnsAnswer, DnsClient, DnsQuery, DnsResolver } from '../types.ts';
import { FLAG, HEADER_BYTES, MAX_MESSAGE_BYTES, RCODE, TYPE } from '../wire/constants.ts';
import { addressRecords, cnameRecord, nameBytes } from '../wire/records.ts';
import { readRcode, startReply } from '../wire/reply.ts';
import { findHost, type NameScope } from './lookup.ts';
import type { NameId, NameTable } from './name-table.ts';

/**
 * Types that only the table answers for a host of the mesh: addresses, and records that lead to addresses. An HTTPS
 * record (RFC 9460) of the real host, for example, may have addresses that bypass the mesh.
 */
const OWN_TYPES: ReadonlySet<number> = new Set([TYPE.A, TYPE.AAAA, TYPE.CNAME, TYPE.SVCB, TYPE.HTTPS, TYPE.ANY]);

/** The remaining bytes of a response are reserved for the OPT record. */
const MAX_RESPONSE_BYTES = MAX_MESSAGE_BYTES - 11;

export interface TableResolverOptions {
  /**
   * The names that this client sees; read for each query. Undefined while they are not known yet: every query then
   * receives SERVFAIL, because a name of the mesh must not be resolved elsewhere. With an empty table, all queries are
   * forwarded.
   */
  scope(client: DnsClient): NameScope | undefined;
  /** 0 ≤ x < 1 */
  readonly random?: () => number;
}

/**
 * - A name of the mesh has the addresses of the table, in random rotation, for 30 s. Without addresses of the requested
 *   family, the response is NOERROR without answers: NXDOMAIN would mean that the name does not exist, and clients that
 *   ask for both families at once would give up.
 * - Names below the mesh's domain have no records of other types. For hosts outside that domain, such as `example.com`
 *   of a ServiceEntry, the next resolver is queried for MX or TXT records. Because the name exists, its NXDOMAIN
 *   becomes NOERROR.
 * - A name to which the client has appended its search domain is answered by a CNAME record to the name, with the
 *   addresses: the client does not go through the rest of its search list.
 */
export function createTableResolver({ scope, random = Math.random }: TableResolverOptions): DnsResolver {
  return {
    resolve(query, client, next) {
      const names = scope(client);
      if (names === undefined) throw new CtlError('unavailable', 'the names of the mesh are not known yet');
      const isOwnType = OWN_TYPES.has(query.type);
      // The name of nearly every query is in the table in wire format: it need not be decoded.
      const id = isOwnType ? names.table.findWire(query.wireName) : undefined;
      if (id !== undefined) return tableReply(query, id, undefined, names.table, random);
      const { name } = query;
      if (name === undefined) return next();
      const match = findHost(name, names);
      if (match === undefined) return next();
      if (isOwnType) return tableReply(query, match.id, match.alias, names.table, random);
      const inDomain = names.domain !== undefined && match.host.endsWith(`.${names.domain}`);
      if (inDomain || match.alias !== undefined) return startReply(query, FLAG.AA, RCODE.NOERROR);
      return existing(query, next());
    },
  };
}

async function existing(query: DnsQuery, answer: DnsAnswer): Promise<Buffer> {
  const response = await answer;
  return readRcode(response) === RCODE.NXDOMAIN ? startReply(query, FLAG.AA, RCODE.NOERROR) : response;
}

/** @param alias to which a CNAME record leads, see `Match` */
function tableReply(
  query: DnsQuery,
  id: NameId,
  alias: string | undefined,
  table: NameTable,
  random: () => number,
): Buffer {
  const { type } = query;
  const v4 = type === TYPE.A || type === TYPE.ANY ? table.addresses(id, 4) : undefined;
  const v6 = type === TYPE.AAAA || type === TYPE.ANY ? table.addresses(id, 6) : undefined;
  const found = (v4?.length ?? 0) + (v6?.length ?? 0) > 0;
  if (!found && (alias === undefined || type !== TYPE.CNAME)) return startReply(query, FLAG.AA, RCODE.NOERROR);
  const target = alias === undefined ? undefined : nameBytes(alias);
  const cnameBytes = target === undefined ? 0 : cnameRecord.size(target);
  // The owner of the address records is the name of the question, or the target of the CNAME record: a pointer to it.
  const owner = target === undefined ? HEADER_BYTES : query.questionEnd + cnameBytes - target.length;
  let space = MAX_RESPONSE_BYTES - query.questionEnd - cnameBytes;
  const records4 = addressRecords(TYPE.A, v4, 4, space, random());
  space -= records4.bytes;
  const records6 = addressRecords(TYPE.AAAA, v6, 16, space, random());
  const reply = startReply(query, FLAG.AA, RCODE.NOERROR, cnameBytes + records4.bytes + records6.bytes);
  let at = query.questionEnd;
  if (target !== undefined) at = cnameRecord.write(reply, at, target);
  at = records4.write(reply, at, owner);
  records6.write(reply, at, owner);
  reply.writeUInt16BE(records4.count + records6.count + (target === undefined ? 0 : 1), 6);
  return reply;
}
