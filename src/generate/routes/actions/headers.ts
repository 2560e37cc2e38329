/** Header operations of routes and of single destinations. */
import { envoy } from '../../../protobuf/index.ts';
import type { HeaderOperations, HttpHeaders } from '../../../resources/index.ts';
import type { HeaderValueOption, Route } from '../messages.ts';

const { APPEND_IF_EXISTS_OR_ADD, OVERWRITE_IF_EXISTS_OR_ADD } =
  envoy.config.core.v3.HeaderValueOption.HeaderAppendAction;

/** The common fields of Route and WeightedCluster.ClusterWeight. */
export type HeaderFields = Pick<
  Route,
  'requestHeadersToAdd' | 'requestHeadersToRemove' | 'responseHeadersToAdd' | 'responseHeadersToRemove'
>;

/** Header changes in the order given: the later ones come after the earlier ones. */
export function headerFields(all: readonly (HttpHeaders | undefined)[]): HeaderFields {
  const requests = all.flatMap((headers) => headers?.request ?? []);
  const responses = all.flatMap((headers) => headers?.response ?? []);
  const requestHeadersToAdd = requests.flatMap(headersToAdd);
  const requestHeadersToRemove = requests.flatMap(headersToRemove);
  const responseHeadersToAdd = responses.flatMap(headersToAdd);
  const responseHeadersToRemove = responses.flatMap(headersToRemove);
  return {
    ...(requestHeadersToAdd.length > 0 ? { requestHeadersToAdd } : {}),
    ...(requestHeadersToRemove.length > 0 ? { requestHeadersToRemove } : {}),
    ...(responseHeadersToAdd.length > 0 ? { responseHeadersToAdd } : {}),
    ...(responseHeadersToRemove.length > 0 ? { responseHeadersToRemove } : {}),
  };
}

/** The new `Host` of requests, when the operations set one: in Envoy that is a host rewrite, not a header operation. */
export function hostOverride(headers: HttpHeaders | undefined): string | undefined {
  const set = headers?.request?.set ?? {};
  return Object.entries(set).find(([name]) => isHost(name))?.[1];
}

function headersToAdd({ set, add }: HeaderOperations): HeaderValueOption[] {
  return [...options(set, OVERWRITE_IF_EXISTS_OR_ADD), ...options(add, APPEND_IF_EXISTS_OR_ADD)];
}

function options(
  values: Readonly<Record<string, string>> | undefined,
  appendAction: typeof APPEND_IF_EXISTS_OR_ADD | typeof OVERWRITE_IF_EXISTS_OR_ADD,
): HeaderValueOption[] {
  return Object.entries(values ?? {})
    .filter(([name]) => isChangeable(name))
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
    .map(([key, value]) => ({ header: { key, value }, appendAction }));
}

function headersToRemove({ remove }: HeaderOperations): string[] {
  return (remove ?? []).filter(isChangeable);
}

/** Envoy refuses a whole route configuration that changes pseudo headers or `Host` as headers. */
function isChangeable(name: string): boolean {
  return name !== '' && !name.startsWith(':') && !isHost(name);
}

function isHost(name: string): boolean {
  const lower = name.toLowerCase();
  return lower === 'host' || lower === ':authority';
}
