/** Compares a list of a message, while it arrives, with a known list, or one that is just being learned. */
import type { ListForm, NameListBuilder } from './name-list-builder.ts';
import { HEAD_BYTES } from './name-list-cache.ts';

/** The part of a list that has arrived equals the first `done` bytes of `form`. */
export interface FormMatch {
  readonly field: number;
  readonly form: ListForm;
  done: number;
  /** Other forms with the same head, longest first; undefined until they are needed. */
  readonly others: readonly ListForm[] | undefined;
  /** Length up to which `others` are known to equal `form`. */
  readonly alike: number;
}

/**
 * The part of a list that has arrived equals the first `done` bytes of a list that this stream or another is adding.
 */
export interface BuilderMatch {
  readonly field: number;
  readonly list: NameListBuilder;
  done: number;
}

/** A match that begins: of the other forms only the head was compared. */
export function matchOf(field: number, form: ListForm, done: number): FormMatch {
  return { field, form, done, others: undefined, alike: HEAD_BYTES };
}

/** Number of equal bytes from the given offsets on, of `length`. */
export function equalBytes(a: Buffer, aStart: number, b: Buffer, bStart: number, length: number): number {
  let [equal, differs] = [0, length + 1];
  while (differs - equal > 1) {
    const middle = (equal + differs) >>> 1;
    if (a.compare(b, bStart + equal, bStart + middle, aStart + equal, aStart + middle) === 0) equal = middle;
    else differs = middle;
  }
  return equal;
}

/**
 * Maximum number of forms that are remembered: lists of the types whose requests have names, some of which alternate.
 */
const MAX_RECENT = 4;

/** Lists that were found in the stream's last messages. */
export class RecentForms {
  /** The last form first. */
  readonly #recent: { readonly field: number; readonly form: ListForm }[] = [];

  /** A form that begins with the head at `start`. */
  find(field: number, bytes: Buffer, start: number): ListForm | undefined {
    for (const recent of this.#recent)
      if (recent.field === field && recent.form.bytes.compare(bytes, start, start + HEAD_BYTES, 0, HEAD_BYTES) === 0)
        return recent.form;
    return undefined;
  }

  add(field: number, form: ListForm): void {
    const recent = this.#recent;
    if (recent[0]?.form === form && recent[0].field === field) return;
    const before = recent.findIndex((one) => one.form === form && one.field === field);
    if (before > 0) recent.splice(before, 1);
    else if (recent.length === MAX_RECENT) recent.pop();
    recent.unshift({ field, form });
  }
}
