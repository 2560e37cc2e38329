/** Encoded resources and immutable bundles of them; equal content is kept once. */
export { bundleAfter, emptyBundle, isUntouched, keptBundle, nextBundle } from './bundle.ts';
export { BundleTemplates, type UnitContents } from './bundle-templates.ts';
export { contentVersion, encodeResource, resourceMessage } from './encode-resource.ts';
export { EndpointEncoder } from './endpoint-encoder.ts';
export { Interner } from './interner.ts';
export { type MessageVersions, versionOfResource, versionsOfMessages } from './resource-versions.ts';
