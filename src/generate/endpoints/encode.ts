/**
 * `envoy.config.endpoint.v3.ClusterLoadAssignment` encoded by hand: the one message that is encoded on the main thread,
 * at each change of an endpoint. Field numbers are those of endpoint.proto, endpoint_components.proto, address.proto,
 * base.proto and wrappers.proto; a test compares it with the compiled messages.
 */
import { BackwardWriter } from '../../protobuf/wire/index.ts';
import { isSocketPath } from '../common/index.ts';
import { type AssignedEndpoint, type AssignedLocality, assignEndpoints } from './assign.ts';
import { HEALTH_STATUS, TLS_MODE } from './message.ts';
import type { EndpointsInput } from './resolve.ts';

/** Approximate bytes of an endpoint and its locality: an initial buffer size that rarely has to grow. */
const BYTES_PER_ENDPOINT = 48;
const BYTES_PER_ASSIGNMENT = 256;

/** The encoded ClusterLoadAssignment of a cluster. Equal inputs give equal bytes. */
export function encodeEndpoints(input: EndpointsInput): Uint8Array {
  const { clusterName, localities } = assignEndpoints(input);
  const perEndpoint = BYTES_PER_ENDPOINT + (input.endpoints[0]?.tlsReady === true ? MUTUAL_TLS.length : 0);
  const writer = new BackwardWriter(BYTES_PER_ASSIGNMENT + perEndpoint * input.endpoints.length);
  for (const locality of backward(localities)) {
    const mark = writer.mark();
    writeLocality(writer, locality);
    writer.message(2, mark);
  }
  writer.string(1, clusterName);
  return writer.finish();
}

function writeLocality(writer: BackwardWriter, { locality, weight, priority, endpoints }: AssignedLocality): void {
  if (priority !== 0) writer.uint32(5, priority);
  writeUint32Value(writer, 3, weight);
  for (const endpoint of backward(endpoints)) {
    const mark = writer.mark();
    writeEndpoint(writer, endpoint);
    writer.message(2, mark);
  }
  // Also for an unknown locality: Envoy only reads the weight of a locality if the field is present, and a locality
  // without a weight gets no requests from hashing load balancers, or if other localities have weights.
  const mark = writer.mark();
  const [region = '', zone = '', subZone = ''] = locality.split('/');
  if (subZone !== '') writer.string(3, subZone);
  if (zone !== '') writer.string(2, zone);
  if (region !== '') writer.string(1, region);
  writer.message(1, mark);
}

function writeEndpoint(writer: BackwardWriter, { address, port, weight, health, tlsReady }: AssignedEndpoint): void {
  if (weight !== 1) writeUint32Value(writer, 4, weight);
  if (tlsReady) writer.bytes(MUTUAL_TLS);
  const status = HEALTH_STATUS[health];
  if (status !== 0) writer.uint32(2, status);
  const endpoint = writer.mark();
  const addressMark = writer.mark();
  const kind = writer.mark();
  if (isSocketPath(address)) {
    writer.string(1, address);
    writer.message(2, kind);
  } else {
    writer.uint32(3, port);
    writer.string(2, address);
    writer.message(1, kind);
  }
  writer.message(1, addressMark);
  writer.message(1, endpoint);
}

/**
 * `metadata {filter_metadata {key, value {fields {key, value {string_value}}}}}` of {@link TLS_MODE}, with its field
 * tag: always the same.
 */
function mutualTls(): Uint8Array {
  const writer = new BackwardWriter(BYTES_PER_ENDPOINT);
  writer.string(3, TLS_MODE.mutual);
  writer.message(2, 0);
  writer.string(1, TLS_MODE.key);
  writer.message(1, 0);
  writer.message(2, 0);
  writer.string(1, TLS_MODE.metadata);
  writer.message(1, 0);
  writer.message(3, 0);
  return writer.finish();
}

const MUTUAL_TLS = mutualTls();

function writeUint32Value(writer: BackwardWriter, field: number, value: number): void {
  const mark = writer.mark();
  writer.uint32(1, value);
  writer.message(field, mark);
}

function* backward<T>(items: readonly T[]): Generator<T> {
  for (let i = items.length - 1; i >= 0; i--) {
    const item = items[i];
    if (item !== undefined) yield item;
  }
}
