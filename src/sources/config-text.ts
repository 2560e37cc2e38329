/** The content of one configuration, from a file or a key of a ConfigMap: YAML with a single document. */
import { messageOf } from '../core/errors.ts';
import { fieldPath, type ParsedConfig } from '../resources/index.ts';
import { parseYaml } from './complete-yaml.ts';

/** Why a configuration cannot be used; `line` 1-based. */
export interface ConfigRefusal {
  readonly field: string;
  readonly message: string;
  readonly line: number | undefined;
}

export type ParsedText<T> =
  | { readonly value: T; readonly warning?: string | undefined }
  | { readonly refusal: ConfigRefusal };

/** Prevents documents whose aliases expand to gigabytes. */
const MAX_ALIASES = 100;

export function parseConfigText<T>(text: string, parse: (raw: unknown) => ParsedConfig<T>): ParsedText<T> {
  const { document, lines } = parseYaml(text);
  const lineAt = (offset: number | undefined) => (offset === undefined ? undefined : lines.linePos(offset).line);
  const [error] = document.errors;
  if (error !== undefined) {
    const message = error.code === 'MULTIPLE_DOCS' ? 'expected one document' : `expected YAML: ${error.message}`;
    return { refusal: { field: '', message, line: lineAt(error.pos[0]) } };
  }
  let raw: unknown;
  try {
    raw = document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch (failure) {
    return { refusal: { field: '', message: messageOf(failure), line: undefined } };
  }
  const parsed = parse(raw);
  if (!('problem' in parsed)) return parsed;
  const { path, message } = parsed.problem;
  const node: unknown = document.getIn(path, true);
  const range = typeof node === 'object' && node !== null && 'range' in node ? node.range : undefined;
  const offset: unknown = Array.isArray(range) ? range[0] : undefined;
  return {
    refusal: { field: fieldPath(path), message, line: lineAt(typeof offset === 'number' ? offset : undefined) },
  };
}
