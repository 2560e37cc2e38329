/** Validates ProxyConfig. */
import type { ProxyConfigSpec } from '../schema/proxy-config.ts';
import { checkSelector } from './policy-values.ts';
import type { ValidationErrors } from './validation-errors.ts';

/** Names that API servers accept for variables of containers. */
const VARIABLE = /^[-._a-zA-Z][-._a-zA-Z0-9]{0,255}$/;
/** Suffix of the tag of an image, as in the annotation `sidecar.mesh.io/proxyImageType`. */
const IMAGE_TYPE = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$/;
/** Limit for all variables of a document, which become part of every Pod that it selects. */
const MAX_VARIABLE_CHARACTERS = 16_384;
const MAX_VARIABLES = 256;
const MAX_SELECTOR_LABELS = 64;
/**
 * Variables that decide where the agent sends its token and certificate requests, and which servers it trusts: users
 * who may write a ProxyConfig may not be allowed to change Pods.
 */
const RESERVED = new Set(['CA_ADDR', 'CA_PROVIDER', 'CA_ROOT_CA', 'XDS_ROOT_CA', 'SPIFFE_ENDPOINT_SOCKET']);

export function validateProxyConfig(spec: ProxyConfigSpec, errors: ValidationErrors): void {
  checkSelector(errors.at('selector'), spec.selector);
  const { concurrency = 0, environmentVariables = {}, image } = spec;
  if (concurrency < 0) errors.add(['concurrency'], `expected a number of at least 0, got ${concurrency}`);
  const labels = Object.keys(spec.selector?.matchLabels ?? {}).length;
  if (labels > MAX_SELECTOR_LABELS)
    errors.add(['selector', 'matchLabels'], `expected at most ${MAX_SELECTOR_LABELS} labels, got ${labels}`);
  const variables = Object.keys(environmentVariables).length;
  if (variables > MAX_VARIABLES)
    errors.add(['environmentVariables'], `expected at most ${MAX_VARIABLES} variables, got ${variables}`);
  let characters = 0;
  for (const [name, value] of Object.entries(environmentVariables)) {
    characters += name.length + value.length;
    if (!VARIABLE.test(name))
      errors.add(['environmentVariables', name.slice(0, 80)], 'expected the name of a variable');
    if (RESERVED.has(name)) errors.add(['environmentVariables', name], 'reserved for the mesh configuration');
  }
  if (characters > MAX_VARIABLE_CHARACTERS)
    errors.add(['environmentVariables'], `expected at most ${MAX_VARIABLE_CHARACTERS} characters, got ${characters}`);
  checkImage(errors.at('image'), image);
}

/** `image` of a ProxyConfig, of the mesh configuration and of annotations. */
export function checkImage(errors: ValidationErrors, { imageType = '' }: ProxyConfigSpec['image'] = {}): void {
  if (imageType === '' || IMAGE_TYPE.test(imageType)) return;
  const got = JSON.stringify(imageType.slice(0, 80));
  errors.add(['imageType'], `expected at most 63 letters, digits, _, . and -, got ${got}`);
}
