/** Entries of kubeconfig files, and the errors that name their fields. */
import { CtlError } from '../core/errors.ts';

export type Entries = Readonly<Record<string, unknown>>;

/** A named entry of `clusters`, `users` or `contexts`. */
export interface Named {
  readonly name: string;
  readonly value: Entries;
  readonly file: string;
  /** Path of the entry's fields, such as `users[0].user`. */
  readonly path: string;
}

export function text(entry: Named, field: string): string | undefined {
  const value = entry.value[field];
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value !== 'string') throw refused(entry, field, 'expected a string');
  return value;
}

export function refused(entry: Named, field: string, message: string): CtlError {
  return refusal(entry.file, `${entry.path}.${field}`, message);
}

export function refusal(file: string, field: string, message: string): CtlError {
  return new CtlError('failed_precondition', message, { file, field });
}

export function quoted(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}
