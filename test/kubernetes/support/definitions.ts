/** Custom resource definitions of the mesh's kinds that accept any content. */

/** A definition with one version, which accepts any object with a spec. */
export function definition(kind: string, plural: string, group: string, version = 'v1') {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: { kind, plural, singular: kind.toLowerCase(), listKind: `${kind}List` },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
        },
      ],
    },
  };
}

export const ROUTES = definition('VirtualService', 'virtualservices', 'networking.mesh.io');
export const POLICIES = definition('AuthorizationPolicy', 'authorizationpolicies', 'security.mesh.io');
export const ISTIO_RULES = definition('DestinationRule', 'destinationrules', 'networking.istio.io', 'v1beta1');
export const GATEWAYS = definition('Gateway', 'gateways', 'networking.mesh.io');
