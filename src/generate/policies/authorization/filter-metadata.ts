/**
 * Metadata that a filter of Envoy made for the request or connection, as `experimental.envoy.filters.<filter>[<field>]`
 * names it. Where the filter made none, nothing matches.
 */
import type { envoy } from '../../../protobuf/index.ts';
import { type Condition, leaf, type PrincipalLeaf } from './condition.ts';
import { parsePattern, stringMatcher } from './text.ts';

type Value = envoy.type.matcher.v3.ValueMatcher.Input;

/** A value in brackets is one element of a list. */
export function filterMetadata(filter: string, field: string, value: string): Condition<PrincipalLeaf> {
  const element = /^\[(.*)\]$/s.exec(value)?.[1];
  const matcher = element === undefined ? textValue(value) : { listMatch: { oneOf: textValue(element) } };
  return leaf({ metadata: { filter, path: [{ key: field }], value: matcher } });
}

function textValue(value: string): Value {
  const pattern = parsePattern(value);
  return pattern.kind === 'any' ? { presentMatch: true } : { stringMatch: stringMatcher(pattern) };
}
