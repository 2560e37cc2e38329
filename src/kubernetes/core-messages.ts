/**
 * The protobuf messages of Kubernetes' own kinds, as far as they are read. Field numbers are those of the published
 * files `k8s.io/api/core/v1/generated.proto`, `k8s.io/api/discovery/v1/generated.proto`,
 * `k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto` and `k8s.io/apimachinery/pkg/runtime/generated.proto`; they
 * never change.
 */
import {
  bytesMap,
  flag,
  int32,
  int64,
  items,
  type MessageTable,
  message,
  nested,
  nestedAs,
  presentFlag,
  presentWord,
  raw,
  rawItems,
  text,
  textMap,
  texts,
  word,
} from './wire.ts';

/** A time as JSON has it; whole seconds, as the API server writes them. */
const time = (name: string) =>
  nestedAs(name, message({ 1: int64('seconds') }), ({ seconds }) =>
    typeof seconds === 'number' ? new Date(seconds * 1000).toISOString() : undefined,
  );

/** The annotation in which `kubectl apply` stores a copy of the whole object. */
export const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

const OBJECT_META = message({
  1: text('name'),
  3: word('namespace'),
  5: text('uid'),
  6: text('resourceVersion'),
  7: int64('generation'),
  8: time('creationTimestamp'),
  9: time('deletionTimestamp'),
  11: textMap('labels'),
  12: textMap('annotations', LAST_APPLIED),
});

const OBJECT_REFERENCE = message({ 1: word('kind'), 2: word('namespace'), 3: text('name') });

const CONTAINER = message({
  1: word('name'),
  6: items('ports', message({ 1: word('name'), 3: int32('containerPort'), 4: word('protocol') })),
});

const POD = message({
  1: nested('metadata', OBJECT_META),
  2: nested(
    'spec',
    message({
      2: items('containers', CONTAINER),
      8: word('serviceAccountName'),
      10: word('nodeName'),
      11: flag('hostNetwork'),
      16: text('hostname'),
      17: word('subdomain'),
      20: items('initContainers', CONTAINER),
    }),
  ),
  3: nested(
    'status',
    message({
      1: word('phase'),
      2: items('conditions', message({ 1: word('type'), 2: word('status') })),
      5: word('hostIP'),
      6: text('podIP'),
      12: items('podIPs', message({ 1: text('ip') })),
    }),
  ),
});

/** `IntOrString`: in JSON, a number or a string. */
const intOrString = (name: string) =>
  nestedAs(name, message({ 1: int64('type'), 2: int32('number'), 3: word('text') }), (value) =>
    value.type === 1 ? (value.text ?? '') : (value.number ?? 0),
  );

const SERVICE = message({
  1: nested('metadata', OBJECT_META),
  2: nested(
    'spec',
    message({
      1: items(
        'ports',
        message({
          1: word('name'),
          2: word('protocol'),
          3: int32('port'),
          4: intOrString('targetPort'),
          5: int32('nodePort'),
          6: presentWord('appProtocol'),
        }),
      ),
      2: textMap('selector'),
      3: text('clusterIP'),
      4: word('type'),
      5: texts('externalIPs'),
      7: word('sessionAffinity'),
      8: text('loadBalancerIP'),
      10: text('externalName'),
      11: word('externalTrafficPolicy'),
      13: flag('publishNotReadyAddresses'),
      18: texts('clusterIPs'),
      22: presentWord('internalTrafficPolicy'),
      23: presentWord('trafficDistribution'),
    }),
  ),
  3: nested(
    'status',
    message({
      1: nested('loadBalancer', message({ 1: items('ingress', message({ 1: text('ip'), 2: text('hostname') })) })),
    }),
  ),
});

const ENDPOINT_ADDRESS = message({
  1: text('ip'),
  2: nested('targetRef', OBJECT_REFERENCE),
  3: text('hostname'),
  4: presentWord('nodeName'),
});

const ENDPOINTS = message({
  1: nested('metadata', OBJECT_META),
  2: items(
    'subsets',
    message({
      1: items('addresses', ENDPOINT_ADDRESS),
      2: items('notReadyAddresses', ENDPOINT_ADDRESS),
      3: items(
        'ports',
        message({ 1: word('name'), 2: int32('port'), 3: word('protocol'), 4: presentWord('appProtocol') }),
      ),
    }),
  ),
});

const ENDPOINT_SLICE = message({
  1: nested('metadata', OBJECT_META),
  2: items(
    'endpoints',
    message(
      {
        1: texts('addresses'),
        2: nested(
          'conditions',
          message({ 1: presentFlag('ready'), 2: presentFlag('serving'), 3: presentFlag('terminating') }),
        ),
        3: presentWord('hostname'),
        4: nested('targetRef', OBJECT_REFERENCE),
        6: presentWord('nodeName'),
        7: presentWord('zone'),
      },
      ['addresses'],
    ),
  ),
  3: items(
    'ports',
    message({ 1: presentWord('name'), 2: presentWord('protocol'), 3: int32('port'), 4: presentWord('appProtocol') }),
  ),
  4: word('addressType'),
});

const NODE = message({
  1: nested('metadata', OBJECT_META),
  2: nested('spec', message({ 1: text('podCIDR'), 7: texts('podCIDRs') })),
  3: nested('status', message({ 5: items('addresses', message({ 1: word('type'), 2: text('address') })) })),
});

const SECRET = message({ 1: nested('metadata', OBJECT_META), 2: bytesMap('data'), 3: word('type') });

/** For kinds of which only the metadata is read. */
export const METADATA_ONLY: MessageTable = message({ 1: nested('metadata', OBJECT_META) });

/** Kinds that are requested in protobuf. */
export const CORE_MESSAGES: ReadonlyMap<string, MessageTable> = new Map([
  ['EndpointSlice', ENDPOINT_SLICE],
  ['Endpoints', ENDPOINTS],
  ['Namespace', METADATA_ONLY],
  ['Node', NODE],
  ['Pod', POD],
  ['Secret', SECRET],
  ['Service', SERVICE],
  ['ServiceAccount', METADATA_ONLY],
]);

/** Four bytes before every protobuf object ("k8s" and 0), then this message. */
export const MAGIC = Buffer.from('k8s\0', 'latin1');
export const UNKNOWN = message({
  1: nested('typeMeta', message({ 1: word('apiVersion'), 2: word('kind') })),
  2: raw('raw'),
});

export const LIST = message({
  1: nested('metadata', message({ 2: text('resourceVersion'), 3: text('continue') })),
  2: rawItems('items'),
});

export const WATCH_EVENT = message({ 1: word('type'), 2: nested('object', message({ 1: raw('raw') })) });

export const STATUS = message({
  3: text('message'),
  4: text('reason'),
  5: nested('details', message({ 5: int32('retryAfterSeconds') })),
  6: int32('code'),
});
