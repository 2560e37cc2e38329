/**
 * Rules in CEL that an API server checks of one object: those of `src/resources/validate` that fit in a line. The
 * message is the one of the validation. A rule must cost little for lists of any length, or the API server refuses the
 * whole definition.
 *
 * Source: https://kubernetes.io/docs/reference/using-api/cel/
 */

export interface Rule {
  readonly rule: string;
  readonly message: string;
}

/**
 * How a string is compared; a header match without any of them asks only that the header is there. A list of what there
 * is, and its size, would cost too much: matches are in lists of lists.
 */
export const STRING_MATCH_RULES: Readonly<Record<'exactlyOne' | 'atMostOne', readonly Rule[]>> = {
  exactlyOne: [
    {
      rule: 'has(self.exact) ? !has(self.prefix) && !has(self.regex) : has(self.prefix) != has(self.regex)',
      message: 'expected exactly one of exact, prefix, regex',
    },
  ],
  atMostOne: [
    {
      rule: 'has(self.exact) ? !has(self.prefix) && !has(self.regex) : !has(self.prefix) || !has(self.regex)',
      message: 'expected at most one of exact, prefix, regex',
    },
  ],
};

const either = (one: string, other: string): Rule => ({
  rule: `!(has(self.${one}) && has(self.${other}))`,
  message: `expected either ${one} or ${other}`,
});

const filled = (field: string) => `(has(self.${field}) && size(self.${field}) > 0)`;

const ONE_ACTION = 'expected only one of route, redirect, directResponse, delegate';

/** By kind, and by the path of an object in its spec: `.http[]` is each item of `http`. */
const RULES: Readonly<Record<string, Readonly<Record<string, readonly Rule[]>>>> = {
  AuthorizationPolicy: {
    '': [
      {
        rule: `!has(self.action) || !(self.action in ['DENY', 'CUSTOM']) || ${filled('rules')}`,
        message: 'rules: required for actions DENY and CUSTOM; without rules they never match',
      },
      {
        rule: "has(self.provider) == (has(self.action) && self.action == 'CUSTOM')",
        message: 'provider: required for action CUSTOM, and expected with no other action',
      },
    ],
    '.rules[].when[]': [
      { rule: `${filled('values')} || ${filled('notValues')}`, message: 'expected values or notValues' },
    ],
  },
  DestinationRule: {
    ...Object.fromEntries(
      ['.trafficPolicy', '.subsets[].trafficPolicy']
        .flatMap((path) => [path, `${path}.portLevelSettings[]`])
        .map((path) => [`${path}.loadBalancer`, [either('simple', 'consistentHash')]]),
    ),
  },
  EnvoyFilter: {
    '': [
      {
        rule: `!has(self.workloadSelector) || !${filled('targetRefs')}`,
        message: 'expected either workloadSelector or targetRefs',
      },
    ],
    '.configPatches[].patch': [
      {
        rule: "self.operation == 'REMOVE' || has(self.value)",
        message: 'value: required for every operation but REMOVE',
      },
    ],
  },
  Gateway: {
    '': [{ rule: filled('servers'), message: 'servers: required, expected at least one server' }],
    '.servers[]': [
      {
        rule: "!has(self.port.protocol) || !(self.port.protocol in ['HTTPS', 'TLS']) || has(self.tls)",
        message: 'tls: required for protocols HTTPS and TLS',
      },
    ],
    '.servers[].port': [{ rule: 'has(self.number)', message: 'number: required, expected a port from 1 to 65535' }],
  },
  PeerAuthentication: {
    '': [
      {
        rule:
          '!has(self.portLevelMtls) || (has(self.selector) && has(self.selector.matchLabels) && ' +
          'size(self.selector.matchLabels) > 0)',
        message: 'portLevelMtls: requires a selector with labels: ports belong to workloads',
      },
    ],
  },
  RequestAuthentication: { '.jwtRules[]': [either('jwks', 'jwksUri')] },
  ServiceEntry: {
    '': [
      { rule: 'size(self.hosts) > 0', message: 'hosts: required, expected at least one host' },
      {
        rule: `!has(self.workloadSelector) || !${filled('endpoints')}`,
        message: 'expected either endpoints or workloadSelector',
      },
      {
        rule: `!${filled('endpoints')} || (has(self.resolution) && !(self.resolution in ['NONE', 'DYNAMIC_DNS']))`,
        message: 'endpoints: expected none with resolution NONE (the default) or DYNAMIC_DNS',
      },
    ],
  },
  Sidecar: {
    '': [
      {
        rule:
          `${filled('ingress')} || ${filled('egress')} || has(self.outboundTrafficPolicy) || ` +
          'has(self.inboundConnectionPool)',
        message: 'expected at least one of ingress, egress, outboundTrafficPolicy',
      },
    ],
    '.egress[]': [{ rule: 'size(self.hosts) > 0', message: 'hosts: required, expected at least one host' }],
  },
  VirtualService: {
    '': [
      {
        rule: `${filled('http')} || ${filled('tls')} || ${filled('tcp')}`,
        message: 'expected at least one route under http, tls or tcp',
      },
    ],
    '.http[]': [
      // Several rules, because one that looks at all four costs too much.
      {
        rule: `${filled('route')} || has(self.redirect) || has(self.directResponse) || has(self.delegate)`,
        message: 'expected one of route, redirect, directResponse, delegate',
      },
      { rule: `!has(self.redirect) || !${filled('route')}`, message: ONE_ACTION },
      { rule: `!(has(self.directResponse) || has(self.delegate)) || !${filled('route')}`, message: ONE_ACTION },
      {
        rule:
          'has(self.redirect) ? !has(self.directResponse) && !has(self.delegate) : ' +
          '!has(self.directResponse) || !has(self.delegate)',
        message: ONE_ACTION,
      },
      { rule: `!has(self.mirror) || !${filled('mirrors')}`, message: 'expected either mirror or mirrors' },
    ],
    '.http[].fault': [{ rule: 'has(self.delay) || has(self.abort)', message: 'expected delay or abort' }],
    '.http[].redirect': [either('port', 'derivePort')],
    '.http[].directResponse.body': [either('string', 'bytes')],
  },
  WorkloadEntry: {
    '': [
      {
        rule: `(has(self.address) && self.address != '') || (has(self.network) && self.network != '')`,
        message: 'address: required, expected an IP address, host name or unix:///PATH',
      },
    ],
  },
  WorkloadGroup: {
    '.template': [
      {
        rule: `!has(self.address) || self.address == ''`,
        message: 'address: expected none: each workload of the group has its own',
      },
    ],
  },
};

export function pathRules(kind: string, path: string): readonly Rule[] {
  return RULES[kind]?.[path] ?? [];
}

/** Every place that has rules, for a test that says that each of them exists. */
export function ruledPaths(): readonly { readonly kind: string; readonly path: string }[] {
  return Object.entries(RULES).flatMap(([kind, paths]) => Object.keys(paths).map((path) => ({ kind, path })));
}
