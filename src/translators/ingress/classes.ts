/** Decides by class which Ingresses the mesh serves, according to the mesh configuration. */
import { INGRESS_CLASS_ANNOTATION, type MeshConfig, type Resource } from '../../resources/index.ts';

/** `spec.controller` of IngressClasses that the mesh serves. */
const CONTROLLERS: ReadonlySet<string> = new Set(['mesh.io/ingress-controller', 'istio.io/ingress-controller']);

/** The fields of the mesh configuration about Ingress. */
export type IngressSettings = Pick<
  MeshConfig,
  'ingressClass' | 'ingressControllerMode' | 'ingressSelector' | 'ingressService'
>;

/** Returns the IngressClass of a name; undefined if there is none. */
export type ClassOf = (name: string) => Resource<'IngressClass'> | undefined;

/**
 * Whether an Ingress is served. The annotation decides before the field (Kubernetes documentation, "Deprecated
 * annotation"). An Ingress without a class is served in mode DEFAULT only.
 */
export function isServed(
  { meta, content }: Resource<'Ingress'>,
  classOf: ClassOf,
  { ingressClass, ingressControllerMode: mode }: IngressSettings,
): boolean {
  if (mode === 'OFF') return false;
  const annotated = meta.annotations[INGRESS_CLASS_ANNOTATION];
  if (annotated !== undefined && annotated !== '') return annotated === ingressClass;
  const named = content.ingressClassName;
  if (named === undefined) return mode === 'DEFAULT';
  // Without an IngressClass of that name, as in a directory, the name is compared with the class of the mesh
  // configuration.
  const found = classOf(named);
  return found === undefined ? named === ingressClass : CONTROLLERS.has(found.content.controller ?? '');
}

/** Value of the label `mesh` of the gateways if the mesh configuration has no selector. */
const DEFAULT_GATEWAY = 'ingressgateway';
const DEFAULT_SERVICE = 'mesh-ingressgateway';

/** The labels of the gateways that serve Ingresses. */
export function gatewaySelector({ ingressSelector, ingressService }: IngressSettings): Record<string, string> {
  const named = ingressService === '' || ingressService === DEFAULT_SERVICE ? DEFAULT_GATEWAY : ingressService;
  return { mesh: ingressSelector || named };
}

/** The name of the Service in front of the gateways: its addresses are those of all Ingresses that are served. */
export function gatewayService({ ingressService }: IngressSettings): string {
  return ingressService || DEFAULT_SERVICE;
}
