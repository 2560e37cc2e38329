/**
 * The generated protobuf code without the decoders that a bundle never calls: they are more than half of it, and every
 * thread keeps the text of its bundle in memory.
 */

/** Messages that generation decodes, to apply the patches of EnvoyFilters; the messages inside them belong to them. */
export const PATCHED_TYPES: readonly string[] = [
  'envoy.config.cluster.v3.Cluster',
  'envoy.config.listener.v3.Listener',
  'envoy.config.route.v3.RouteConfiguration',
  'envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager',
];

/** A decoder as the generator writes it, to the line that closes it at the same indentation. */
const DECODER = /^( *)\w+\.decode = function[\s\S]*?\n\1\};\n/gm;
/** The function that returns a message type: its name, and the full name of the message. */
const TYPE = /function (\$\d*_)\(\) \{ return \$\d* \?\?= \$root\.([\w.]+); \}/g;
/** In a decoder: the creation of its own message, and the decoding of a message inside. */
const OWN = /new \((\$\d*_)\(\)\)/;
const INSIDE = /(\$\d*_)\(\)\.decode\(/g;

/** The code without all decoders but those of these messages and of all messages inside them. */
export function withDecodersOf(messages: readonly string[], code: string): string {
  const names = new Map([...code.matchAll(TYPE)].map(([, type = '', name = '']) => [type, name]));
  const inside = new Map<string, readonly string[]>();
  for (const [decoder] of code.matchAll(DECODER)) inside.set(ownType(decoder, names), innerTypes(decoder, names));
  const kept = new Set<string>();
  const keep = (name: string): void => {
    if (kept.has(name)) return;
    kept.add(name);
    inside.get(name)?.forEach(keep);
  };
  messages.forEach(keep);
  return code.replace(DECODER, (decoder) => (kept.has(ownType(decoder, names)) ? decoder : ''));
}

function ownType(decoder: string, names: ReadonlyMap<string, string>): string {
  const name = names.get(OWN.exec(decoder)?.[1] ?? '');
  if (name === undefined) throw new Error(`the generated code has a decoder of another form: ${decoder.slice(0, 200)}`);
  return name;
}

function innerTypes(decoder: string, names: ReadonlyMap<string, string>): string[] {
  return [...decoder.matchAll(INSIDE)].map(([, type = '']) => names.get(type) ?? '');
}
