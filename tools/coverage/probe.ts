/** What shows fields: an input that sets them, and what comes of it with and without each. */
import { changedAt, otherValues, type Setting } from './fields.ts';

/**
 * How a field is shown: it changes the configuration that is made, or a message to its author says that it has no
 * effect.
 */
export type Showing = 'effect' | 'reported';

/** What an input gives. */
export interface Outcome {
  readonly configuration: string;
  /** Messages to authors of documents. */
  readonly reports: string;
}

export interface Probe {
  readonly name: string;
  /** Path of the input in the repository. */
  readonly file: string;
  /** Every place of the input that sets a field; paths begin at the input. */
  settings(): readonly Setting[];
  /** How the input shows the field that a place sets; undefined: not at all. */
  shows(setting: Setting): Promise<Showing | undefined>;
}

/** @param outcomeOf throws for an input that is not valid */
export function createProbe<Input>(
  { name, file }: Pick<Probe, 'name' | 'file'>,
  input: Input,
  settingsOf: (input: Input) => Iterable<Setting>,
  outcomeOf: (input: Input) => Promise<Outcome> | Outcome,
): Probe {
  let whole: Outcome | undefined;
  return {
    name,
    file,
    settings: () => [...settingsOf(input)],
    async shows({ path, schema }) {
      whole ??= await outcomeOf(input);
      let reported: Showing | undefined;
      const others = otherValues(schema, valueAt(input, path));
      for (const other of [undefined, ...others.map((value) => ({ value }))]) {
        const changed = await attempt(() => outcomeOf(changedAt(input, path, other) as Input));
        if (changed === undefined) continue;
        if (changed.configuration !== whole.configuration) return 'effect';
        if (changed.reports !== whole.reports) reported = 'reported';
      }
      return reported;
    },
  };
}

/** Undefined where the input is not valid without the field, or with another value. */
async function attempt(make: () => Promise<Outcome> | Outcome): Promise<Outcome | undefined> {
  try {
    return await make();
  } catch {
    return undefined;
  }
}

function valueAt(root: unknown, path: Setting['path']): unknown {
  let at = root;
  for (const step of path) at = Reflect.get(at as object, step);
  return at;
}

/** The settings around a place, and the one at it: what shows a field shows the objects that it is in. */
export function around({ path }: Setting, all: readonly Setting[]): readonly Setting[] {
  return all.filter((each) => each.path.every((step, index) => path[index] === step));
}
