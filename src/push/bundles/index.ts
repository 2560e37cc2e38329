/** Encoded resources and immutable bundles of them; equal content is kept once. */
export { emptyBundle, isUntouched, nextBundle } from './bundle.ts';
export { contentVersion, messageOf } from './encode-resource.ts';
export { EndpointEncoder } from './endpoint-encoder.ts';
export { Interner } from './interner.ts';
export { Precedents, type UnitContents } from './precedents.ts';
