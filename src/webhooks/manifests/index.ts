/** Injection into files of manifests, without an API server. */
export { createInjector } from '../injection/index.ts';
export { type InjectedManifests, injectManifests } from './manifests.ts';
