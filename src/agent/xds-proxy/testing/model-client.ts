/** A model of Envoy as a client of the discovery protocol. */
import { XDS } from '../../../core/xds-types.ts';
import { encodeFields } from '../../../protobuf/wire/index.ts';
import { type LocatedResource, readResponse, resourceValue, type Variant, writeRequest } from '../messages.ts';

const NODE = encodeFields([
  [1, 'sidecar~192.0.2.1~web.shop~shop.svc.cluster.local'],
  [6, 'envoy'],
]);

/** Envoy: has resources, answers each response, rejects one with a bad resource as a whole. */
export class ModelClient {
  readonly resources = new Map<string, Map<string, string>>();
  readonly names = new Set<string>();
  /** Bytes of accepted responses. */
  readonly accepted = new Set<string>();
  readonly #variant: Variant;
  readonly #send: (bytes: Buffer) => void;
  readonly #nonces = new Map<string, string>();
  readonly #versions = new Map<string, string>();
  #started = false;
  #endpoints = false;

  constructor(variant: Variant, send: (bytes: Buffer) => void) {
    this.#variant = variant;
    this.#send = send;
    this.#request(XDS.cds.url, { names: [] });
  }

  #request(
    typeUrl: string,
    request: { names?: Iterable<string>; unsubscribe?: string; nonce?: string; error?: string | undefined },
  ): void {
    const node = this.#started ? undefined : NODE;
    this.#started = true;
    const { names = [], unsubscribe, ...rest } = request;
    const listed = this.#variant === 'sotw' && typeUrl === XDS.eds.url ? this.names : names;
    const nonce = this.#variant === 'sotw' ? (this.#nonces.get(typeUrl) ?? '') : (rest.nonce ?? '');
    const version = this.#versions.get(typeUrl) ?? '';
    const bytes = writeRequest(this.#variant, { ...rest, typeUrl, names: listed, nonce, version, node });
    this.#send(unsubscribe === undefined ? bytes : Buffer.concat([bytes, encodeFields([[4, unsubscribe]])]));
  }

  subscribe(added: string): void {
    if (this.names.has(added)) return;
    this.names.add(added);
    this.#endpoints = true;
    this.#request(XDS.eds.url, { names: [added] });
  }

  unsubscribe(dropped: string): void {
    if (!this.names.delete(dropped)) return;
    if (this.#variant === 'delta') {
      this.resources.get(XDS.eds.url)?.delete(dropped);
      this.#request(XDS.eds.url, { unsubscribe: dropped });
    }
    // It keeps the resource: a control plane ignores requests that cross a response.
    else if (this.#endpoints) this.#request(XDS.eds.url, {});
  }

  receive(bytes: Buffer): void {
    const { typeUrl, nonce, version, resources, removed } = readResponse(this.#variant, bytes);
    const isBad = resources.some((each) => resourceValue(this.#variant, each).includes('bad'));
    this.#nonces.set(typeUrl, nonce);
    if (!isBad) {
      this.accepted.add(bytes.toString('hex'));
      this.#versions.set(typeUrl, version);
      const before = this.resources.get(typeUrl) ?? new Map<string, string>();
      const after = this.#variant === 'sotw' && typeUrl === XDS.cds.url ? new Map<string, string>() : before;
      for (const each of resources)
        if (typeUrl === XDS.cds.url || this.names.has(each.name)) after.set(each.name, valueIn(this.#variant, each));
      for (const each of removed) after.delete(each);
      this.resources.set(typeUrl, after);
    }
    this.#request(typeUrl, { nonce, error: isBad ? 'bad' : undefined });
  }
}

/** The value of a resource of the model. */
export function valueIn(variant: Variant, resource: LocatedResource): string {
  return /(?:good|bad)\d+/.exec(resourceValue(variant, resource).toString())?.[0] ?? '';
}
