/** Parts of responses that both protocols have. */
import { WireReader } from '../../protobuf/wire/index.ts';
import type { ReceivedResource } from './received.ts';

/** The most refused documents that a NACK names. */
const MAX_NAMED = 5;
const MAX_CHARS = 1000;

/** The message of a NACK, for the operator of the source. */
export function nackMessage(refused: readonly string[]): string {
  const more = refused.length > MAX_NAMED ? `; and ${refused.length - MAX_NAMED} more` : '';
  return `refused documents: ${refused.slice(0, MAX_NAMED).join('; ')}`.slice(0, MAX_CHARS) + more;
}

/** Name and version of an encoded `istio.mcp.v1alpha1.Resource`. Throws CtlError `invalid_argument` for other bytes. */
export function resourceAt(bytes: Buffer): ReceivedResource {
  const reader = new WireReader(bytes);
  let [name, version] = ['', ''];
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    // `metadata`
    if (field.number !== 1) continue;
    const inside = reader.inside(field);
    for (let part = inside.next(); part !== undefined; part = inside.next()) {
      if (part.number === 1) name = inside.text(part);
      else if (part.number === 3) version = inside.text(part);
    }
  }
  return { name, version, bytes };
}
