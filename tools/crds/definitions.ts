/**
 * The CustomResourceDefinitions of the mesh's kinds, generated from their schemas: one for each kind in the mesh's own
 * API groups, and one in those of Istio, for clusters that have Istio's resources and not its definitions.
 */
import { stringify } from 'yaml';
import { apiVersionsOf, MESH_KINDS, type MeshKind, resourceNames, SCHEMAS } from '../../src/resources/index.ts';
import { type StructuralSchema, structuralSchema } from './structural.ts';

const DOMAINS = ['mesh.io', 'istio.io'] as const;
export type Domain = (typeof DOMAINS)[number];

interface Column {
  readonly name: string;
  readonly type: 'string' | 'date';
  readonly jsonPath: string;
  readonly description: string;
}

const AGE: Column = {
  name: 'Age',
  type: 'date',
  jsonPath: '.metadata.creationTimestamp',
  description: 'When the object was created',
};

const column = (name: string, field: string, description: string): Column => ({
  name,
  type: 'string',
  jsonPath: `.spec.${field}`,
  description,
});

/** The output of `kubectl explain` and `kubectl get` for each kind. */
const PRESENTATION: Readonly<Record<MeshKind, { readonly description: string; readonly columns: readonly Column[] }>> =
  {
    AuthorizationPolicy: {
      description: 'Who may call a workload, and how.',
      columns: [column('Action', 'action', 'What happens to requests that match; empty means ALLOW')],
    },
    DestinationRule: {
      description: 'How traffic to a host is balanced, pooled, watched and encrypted, after it was routed.',
      columns: [column('Host', 'host', 'The host that the rule is for')],
    },
    EnvoyFilter: { description: 'Patches of generated Envoy configuration.', columns: [] },
    Gateway: { description: 'The ports that a gateway workload opens.', columns: [] },
    PeerAuthentication: {
      description: 'Whether workloads accept mutual TLS, plain text, or both.',
      columns: [column('Mode', 'mtls.mode', 'The mode of ports without a mode of their own')],
    },
    ProxyConfig: { description: 'How the proxies of injected Pods run.', columns: [] },
    RequestAuthentication: { description: 'Which issuers of tokens (JWT) a workload believes.', columns: [] },
    ServiceEntry: {
      description: 'A service that the orchestrator does not know.',
      columns: [
        column('Hosts', 'hosts', 'The names of the service'),
        column('Location', 'location', 'Whether it is part of the mesh'),
        column('Resolution', 'resolution', 'How its addresses are found'),
      ],
    },
    Sidecar: { description: 'What the proxies of workloads listen on and may reach.', columns: [] },
    Telemetry: { description: 'Spans and access logs of workloads.', columns: [] },
    VirtualService: {
      description: 'Where requests and connections to a host go.',
      columns: [
        column('Gateways', 'gateways', 'The gateways that the routes are for; empty means sidecars'),
        column('Hosts', 'hosts', 'The hosts that are routed'),
      ],
    },
    WorkloadEntry: {
      description: 'A workload that the orchestrator does not run.',
      columns: [
        column('Address', 'address', 'Its IP address, host name or unix socket'),
        {
          name: 'Healthy',
          type: 'string',
          jsonPath: '.status.conditions[?(@.type=="Healthy")].status',
          description: 'What its agent has reported; empty if it is not probed, or has not been',
        },
      ],
    },
    WorkloadGroup: {
      description: 'What the workloads of one kind outside the orchestrator have in common; they register themselves.',
      columns: [
        column('Account', 'template.serviceAccount', 'The service account of the workloads'),
        column('Labels', 'metadata.labels', 'The labels of their WorkloadEntries'),
      ],
    },
    adapter: {
      description: 'An adapter of the policy component outside of it: its templates and the type of its parameters.',
      columns: [column('Templates', 'templates', 'The templates that it supports')],
    },
    attributemanifest: { description: 'Attributes and their types, for expressions.', columns: [] },
    handler: {
      description: 'An adapter of the policy component with its parameters.',
      columns: [
        column('Adapter', 'adapter', 'The adapter outside'),
        column('Compiled', 'compiledAdapter', 'The adapter that is part of the program'),
      ],
    },
    instance: {
      description: 'What a handler gets of a request: expressions over attributes, by the fields of a template.',
      columns: [
        column('Template', 'template', 'The document with the template'),
        column('Compiled', 'compiledTemplate', 'The template that is part of the program'),
      ],
    },
    rule: {
      description: 'Which handlers get which instances of which requests.',
      columns: [column('Match', 'match', 'The condition of the rule')],
    },
    template: { description: 'The fields of instances for adapters outside.', columns: [] },
  };

/** Written by ctl-discovery; its fields are not part of the contract with users. */
const STATUS: StructuralSchema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };

function objectSchema(kind: MeshKind): StructuralSchema {
  const spec = structuralSchema(kind, SCHEMAS[kind]);
  return {
    type: 'object',
    description: PRESENTATION[kind].description,
    // Without a spec none of its rules would be checked.
    ...(spec.required !== undefined || spec['x-kubernetes-validations'] !== undefined ? { required: ['spec'] } : {}),
    properties: { spec, status: STATUS },
  };
}

export interface Definition {
  readonly apiVersion: 'apiextensions.k8s.io/v1';
  readonly kind: 'CustomResourceDefinition';
  readonly metadata: { readonly name: string };
  readonly spec: object;
}

/** The definition of a kind: every version that is read, with one schema; the first is the one that is stored. */
export function definitionOf(kind: MeshKind, domain: Domain): Definition {
  const all = apiVersionsOf(kind).map((apiVersion) => apiVersion.split('/') as [group: string, version: string]);
  const group = all.map(([name]) => name).find((name) => name.endsWith(`.${domain}`)) ?? '';
  // The first of all is the canonical version, in both domains.
  const stored = all[0]?.[1];
  const versions = all.filter(([name]) => name === group).map(([, version]) => version);
  const schema = { openAPIV3Schema: objectSchema(kind) };
  const { singular, plural, shortNames } = resourceNames(kind);
  const area = group.slice(0, group.indexOf('.'));
  const category = domain.replace('.', '-');
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular,
        ...(shortNames.length === 0 ? {} : { shortNames }),
        categories: [category, `${area}-${category}`],
      },
      versions: versions.map((name) => ({
        name,
        served: true,
        storage: name === stored,
        subresources: { status: {} },
        additionalPrinterColumns: [...PRESENTATION[kind].columns, AGE],
        schema,
      })),
    },
  };
}

const HEADER = '# Generated from the schemas of src/resources: UPDATE_CRDS=1 npm test -- unit crds\n';

/**
 * The files of `deploy/crds`, by their path below it. Those of Istio's groups have a folder of their own: few clusters
 * need them.
 */
export function definitionFiles(): ReadonlyMap<string, string> {
  const files = DOMAINS.flatMap((domain) =>
    MESH_KINDS.map((kind): [string, string] => {
      const definition = definitionOf(kind, domain);
      const folder = domain === 'mesh.io' ? '' : 'istio/';
      const text = stringify(definition, { aliasDuplicateObjects: false, lineWidth: 0 });
      return [`${folder}${definition.metadata.name}.yaml`, `${HEADER}${text}`];
    }),
  );
  return new Map(files);
}
