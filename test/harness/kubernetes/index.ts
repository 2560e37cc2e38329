/** A real Kubernetes control plane for tests, and requests to it; `control-plane.ts` shows its use. */
export {
  type ApiAccess,
  type ApiAnswer,
  ApiError,
  type ApiObject,
  type ApiReference,
  type ApiRequest,
  type ApplyOptions,
  type Credential,
  createApi,
  type KubernetesApi,
  kubeconfig,
} from './api.ts';
export {
  CONFORMANCE_PROFILES,
  type Conformance,
  type ConformanceResult,
  type ConformanceRun,
  type ConformanceRunOptions,
  startConformance,
} from './conformance.ts';
export {
  buildConformance,
  type ConformanceArtifact,
  conformancePath,
  conformanceUnavailable,
} from './conformance-programs.ts';
export {
  API_SERVICE_ADDRESS,
  type ControlledProgram,
  type Kubernetes,
  type KubernetesOptions,
  startKubernetes,
  TOKEN_ISSUER,
  type TokenOptions,
} from './control-plane.ts';
export {
  applyDefinitions,
  applyGatewayDefinitions,
  type DefinitionOptions,
  discoveryKubeconfig,
  meshRoot,
  remoteKubeconfig,
} from './deploy.ts';
export { FIRST_DATA } from './first-data.ts';
export {
  buildHelm,
  type ChartName,
  helmPath,
  helmUnavailable,
  installChart,
  lintChart,
  type Release,
  renderChart,
  uninstallChart,
} from './helm.ts';
export { IMAGES } from './images.ts';
export { exposeApiServer, programImage } from './in-pod.ts';
export { type ContainerStart, type Image, type Kubelet, type KubeletOptions, startKubelet } from './kubelet.ts';
export { type LoadBalancerOptions, startLoadBalancer } from './load-balancer.ts';
export { makeFirstData } from './make-first-data.ts';
export { injectionReady, isInjected, MESH_NAMESPACE, type Mesh, type MeshOptions, startMesh, tryPod } from './mesh.ts';
export { buildKubernetes, kubernetesUnavailable, type ProgramName, programPath } from './programs.ts';
export { type ServiceProxy, startServiceProxy } from './service-proxy.ts';
export { keyOf, type WatchHandler, watchCollection } from './watch.ts';
