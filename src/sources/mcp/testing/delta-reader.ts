/** A reader of configuration over xDS by Delta, for tests of the server: as the protocol says, without more. */
import { BY_XDS_TYPE, type ExchangedKind, readResource } from '../../../mcp/index.ts';
import { encode, envoy } from '../../../protobuf/index.ts';
import { type ResourceEvent, resourceKey } from '../../../resources/index.ts';
import type { ConfigProtocol, Received } from '../protocol.ts';
import { LIMITS } from './exchange.ts';

const { DeltaDiscoveryRequest, DeltaDiscoveryResponse } = envoy.service.discovery.v3;

export class DeltaReader implements ConfigProtocol {
  readonly path = '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources';
  /** One version of each kind: those of others have the same documents. */
  readonly groups: readonly string[] = [...BY_XDS_TYPE.keys()].filter((type) => type.includes('.io/v1/'));
  /** Versions by type and name. */
  readonly #has = new Map<string, Map<string, string>>();

  open(): Uint8Array[] {
    return this.groups.map((typeUrl) =>
      encode(DeltaDiscoveryRequest, {
        typeUrl,
        resourceNamesSubscribe: ['*'],
        initialResourceVersions: Object.fromEntries(this.#of(typeUrl)),
      }),
    );
  }

  receive(bytes: Buffer): Received {
    const { typeUrl, nonce, resources, removedResources } = DeltaDiscoveryResponse.decode(bytes);
    const kind = BY_XDS_TYPE.get(typeUrl) as ExchangedKind;
    const has = this.#of(typeUrl);
    const events: ResourceEvent[] = resources.map(({ name, version, resource }) => {
      has.set(name, version);
      const value = resource?.value ?? new Uint8Array();
      const read = readResource(value, { name, version }, { kind, source: 'far', limits: LIMITS });
      if ('problem' in read) throw new Error(read.problem.message);
      return { type: 'set', resource: read.resource, eventTime: 0 };
    });
    for (const name of removedResources) {
      if (!has.delete(name)) throw new Error(`${name} is removed, and was never sent`);
      const [namespace = '', plain = ''] = name.split('/');
      events.push({ type: 'delete', key: resourceKey(kind.kind, namespace, plain), eventTime: 0 });
    }
    return { group: typeUrl, events, replies: [encode(DeltaDiscoveryRequest, { typeUrl, responseNonce: nonce })] };
  }

  #of(typeUrl: string): Map<string, string> {
    const has = this.#has.get(typeUrl) ?? new Map<string, string>();
    this.#has.set(typeUrl, has);
    return has;
  }
}
