/** The paths of webhooks. */
import { CtlError } from '../../core/errors.ts';
import type { Webhook } from '../tasks.ts';
import type { InjectionParameters } from '../types.ts';

/** Maximum length of a parameter: names of clusters and networks. */
const MAX_VALUE = 253;

const PARAMETERS: Readonly<Record<string, keyof InjectionParameters>> = { cluster: 'cluster', net: 'network' };

/**
 * The webhook at a path: `/inject`, `/inject/cluster/X/net/Y`, `/validate`. Undefined for unknown paths.
 * @param path without the query
 * @throws CtlError invalid_argument for parameters that are unknown, repeated or empty
 */
export function webhookAt(path: string): Webhook | undefined {
  if (path === '/validate') return { kind: 'validate' };
  if (path !== '/inject' && !path.startsWith('/inject/')) return undefined;
  const parts = path.split('/').slice(2);
  if (parts.at(-1) === '') parts.pop();
  const parameters = new Map<keyof InjectionParameters, string>();
  for (let index = 0; index < parts.length; index += 2) {
    const [name = '', value] = parts.slice(index, index + 2);
    const parameter = Object.hasOwn(PARAMETERS, name) ? PARAMETERS[name] : undefined;
    if (parameter === undefined) throw refusal(`unknown parameter ${quoted(name)}: expected cluster or net`);
    if (parameters.has(parameter)) throw refusal(`the parameter ${name} is repeated`);
    parameters.set(parameter, valueFrom(name, value));
  }
  return { kind: 'inject', parameters: Object.fromEntries(parameters) };
}

function valueFrom(name: string, text: string | undefined): string {
  let value: string;
  try {
    value = decodeURIComponent(text ?? '');
  } catch {
    throw refusal(`the value of ${name} is not valid percent-encoding`);
  }
  if (value === '' || value.length > MAX_VALUE)
    throw refusal(`expected a value of ${name}, as in /inject/${name}/NAME`);
  return value;
}

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, MAX_VALUE));
}

function refusal(message: string): CtlError {
  return new CtlError('invalid_argument', message);
}
