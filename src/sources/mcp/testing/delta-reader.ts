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
  /** Names that were ever sent, by type. */
  readonly #sent = new Map<string, Set<string>>();

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
    const sent = this.#sent.get(typeUrl) ?? new Set<string>();
    this.#sent.set(typeUrl, sent);
    const refused: string[] = [];
    const events: ResourceEvent[] = resources.map(({ name, version, resource }) => {
      sent.add(name);
      const value = resource?.value ?? new Uint8Array();
      const read = readResource(value, { name, version }, { kind, source: 'far', limits: LIMITS });
      has.set(name, 'problem' in read ? '' : version);
      if ('problem' in read) {
        refused.push(name);
        return { type: 'invalid', problem: read.problem, eventTime: 0 };
      }
      return { type: 'set', resource: read.resource, eventTime: 0 };
    });
    for (const name of removedResources) {
      if (!sent.has(name)) throw new Error(`${name} is removed, and was never sent`);
      has.delete(name);
      const [namespace = '', plain = ''] = name.split('/');
      events.push({ type: 'delete', key: resourceKey(kind.kind, namespace, plain), eventTime: 0 });
    }
    const nack = refused.length === 0 ? {} : { errorDetail: { code: 3, message: refused.join(', ') } };
    const reply = encode(DeltaDiscoveryRequest, { typeUrl, responseNonce: nonce, ...nack });
    return { group: typeUrl, events, replies: [reply] };
  }

  #of(typeUrl: string): Map<string, string> {
    const has = this.#has.get(typeUrl) ?? new Map<string, string>();
    this.#has.set(typeUrl, has);
    return has;
  }
}
