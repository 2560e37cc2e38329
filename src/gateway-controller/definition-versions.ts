/**
 * The condition SupportedVersion of a GatewayClass, from the versions of the CustomResourceDefinitions of the Gateway
 * API.
 */
import { type Condition, type DesiredStatus, recordsOf, type StatusFields } from './types.ts';

/** The annotation of the CustomResourceDefinitions of the API. */
export const VERSION_ANNOTATION = 'gateway.networking.k8s.io/bundle-version';

/** The releases that the conformance suite is run with: patches change no definitions. */
const SUPPORTED = /^v1\.6\.\d+$/;
const SUPPORTED_TEXT = 'v1.6';

/** The maximum number of versions in the message, and of characters of each: the annotation may contain any string. */
const MAX_SHOWN = 5;
const MAX_LENGTH = 40;

/** Version by plural of the kind; undefined for a definition without the annotation. */
export type DefinitionVersions = ReadonlyMap<string, string | undefined>;

/**
 * The status of a class with the condition; other statuses stay as they are.
 * @param versions undefined while they are not known
 */
export function withVersions(desired: DesiredStatus | undefined, versions: DefinitionVersions | undefined) {
  if (desired?.kind !== 'GatewayClass' || versions === undefined) return desired;
  const status = desired.status as StatusFields;
  const conditions = recordsOf(status.conditions);
  return { ...desired, status: { ...status, conditions: [...conditions, supportedVersion(desired, versions)] } };
}

function supportedVersion({ generation }: DesiredStatus, versions: DefinitionVersions): Condition {
  const found = [...new Set(versions.values())];
  const isSupported = found.every((version) => version !== undefined && SUPPORTED.test(version));
  const reason = isSupported ? 'SupportedVersion' : 'UnsupportedVersion';
  const shown = found
    .map((version) => version?.slice(0, MAX_LENGTH) ?? 'none')
    .sort()
    .slice(0, MAX_SHOWN)
    .join(', ');
  return {
    type: 'SupportedVersion',
    status: isSupported ? 'True' : 'False',
    reason,
    message: `versions of the CRDs: ${shown}; supported: ${SUPPORTED_TEXT}`,
    ...(generation === undefined ? {} : { observedGeneration: generation }),
  };
}
