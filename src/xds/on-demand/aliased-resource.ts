/**
 * Virtual hosts for names that a proxy has asked for: `Resource` messages with aliases. Source:
 * https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/vhds
 *
 * A request waits in Envoy until a response has its name (`<route configuration>/<host>`) as the name or as an alias of
 * a resource. An alias whose resource has no message ends the wait without adding a virtual host.
 */
import { XDS } from '../../core/xds-types.ts';
import { BackwardWriter, WireReader } from '../../protobuf/wire/index.ts';
import { contentVersion, type EncodedResource, resourceMessage } from '../../push/index.ts';
import { answerName } from './own-names.ts';

/** Fields of `envoy.service.discovery.v3.Resource`, and of its `google.protobuf.Any`. */
const RESOURCE = { version: 1, message: 2, name: 3, aliases: 4 };
const ANY = { typeUrl: 1, value: 2 };
/** DeltaDiscoveryResponse.resources. */
const RESOURCES = 2;
/** Fields of `envoy.config.route.v3.VirtualHost`. */
const HOST = { name: 1, domains: 2 };

const { url: TYPE_URL } = XDS.vhds;

const BYTES = 256;

/** The version of resources without a message: the name is all that they say. */
const ANSWERED = 'answered';

/** Ends the wait for a name. */
export function answeredName(alias: string): EncodedResource {
  const name = answerName(alias);
  const writer = new BackwardWriter(BYTES);
  writer.string(RESOURCE.aliases, alias);
  writer.string(RESOURCE.name, name);
  writer.string(RESOURCE.version, ANSWERED);
  writer.message(RESOURCES, 0);
  const fragment = writer.finish();
  return { name, version: ANSWERED, fragment, anyOffset: fragment.length, refs: [] };
}

/** A virtual host with another name and one domain only. */
export function restrictedHost(
  host: EncodedResource,
  { name, domain }: { readonly name: string; readonly domain: string },
): EncodedResource {
  const message = messageFor(resourceMessage(host), name, domain);
  const version = contentVersion(message);
  const writer = new BackwardWriter(BYTES + message.length);
  const any = writer.mark();
  const value = writer.mark();
  writer.bytes(message);
  writer.message(ANY.value, value);
  writer.string(ANY.typeUrl, TYPE_URL);
  writer.message(RESOURCE.message, any);
  const anyLength = writer.mark() - any;
  writer.string(RESOURCE.name, name);
  writer.string(RESOURCE.version, version);
  writer.message(RESOURCES, 0);
  const fragment = writer.finish();
  return { name, version, fragment, anyOffset: fragment.length - anyLength, refs: [] };
}

function messageFor(host: Uint8Array, name: string, domain: string): Uint8Array {
  const writer = new BackwardWriter(BYTES + host.length);
  const reader = new WireReader(Buffer.from(host.buffer, host.byteOffset, host.length));
  const kept: Uint8Array[] = [];
  for (let field = reader.next(); field !== undefined; field = reader.next())
    if (field.number !== HOST.name && field.number !== HOST.domains) kept.push(host.subarray(field.tag, field.end));
  for (const bytes of kept.reverse()) writer.bytes(bytes);
  writer.string(HOST.domains, domain);
  writer.string(HOST.name, name);
  return writer.finish();
}

/** The domains of a virtual host. */
export function domainsOf(host: EncodedResource): readonly string[] {
  const message = resourceMessage(host);
  const reader = new WireReader(Buffer.from(message.buffer, message.byteOffset, message.length));
  const domains: string[] = [];
  for (let field = reader.next(); field !== undefined; field = reader.next())
    if (field.number === HOST.domains) domains.push(reader.text(field));
  return domains;
}
