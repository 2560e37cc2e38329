/**
 * The type of a table of flags. Each flag is defined once, under the name that users type: parser, help, default, type
 * and setting name are derived from that entry. A flag has an entry only when the program acts on it.
 */

/** The fields of every flag. `check` throws an `Error` that says what is wrong with a value. */
interface FlagBase<V> {
  /** The help text. */
  readonly meaning: string;
  /** One letter, without its dash. */
  readonly short?: string;
  readonly check?: (value: V) => void;
}

interface BoolFlag extends FlagBase<boolean> {
  readonly type: 'bool';
  readonly default: boolean;
}

interface TextFlag extends FlagBase<string> {
  readonly type: 'string';
  readonly default: string;
  /** The value when the flag is not given, if it differs from `default`, which `--help` shows. */
  readonly whenNotGiven?: string;
  /** The allowed values, besides the default. */
  readonly values?: readonly string[];
}

interface NumberFlag extends FlagBase<number> {
  readonly type: 'int' | 'uint16';
  readonly default: number;
  /** The smallest allowed value. */
  readonly min?: number;
  /** What the number counts, for messages: `days`. */
  readonly unit?: string;
}

/** Written as a Go duration. Its value is milliseconds. */
interface DurationFlag extends FlagBase<number> {
  readonly type: 'duration';
  readonly default: string;
  /** The smallest allowed value, ms. */
  readonly min?: number;
}

/** A `stringSlice` has comma-separated items, a `stringArray` one item each time. Both may be repeated. */
interface ListFlag extends FlagBase<readonly string[]> {
  readonly type: 'stringSlice' | 'stringArray';
  readonly default: readonly string[];
  /** The allowed items. */
  readonly values?: readonly string[];
}

export type FlagSpec = BoolFlag | TextFlag | NumberFlag | DurationFlag | ListFlag;

export type FlagTable = Readonly<Record<string, FlagSpec>>;

/** The value of a flag inside the program. Durations are numbers of milliseconds. */
export type FlagValue = boolean | string | number | readonly string[];

type ValueOf<S extends FlagSpec> = S extends BoolFlag
  ? boolean
  : S extends TextFlag
    ? string
    : S extends ListFlag
      ? readonly string[]
      : number;

/** `log_as_json` and `trust-domain` as `logAsJson` and `trustDomain`. */
type CamelCase<N extends string> = N extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : N extends `${infer Head}-${infer Tail}`
    ? `${Head}${Capitalize<CamelCase<Tail>>}`
    : N;

/** The type of the settings that a table defines. */
export type FlagValues<T extends FlagTable> = {
  readonly [N in keyof T & string as SettingName<N, T[N]>]: ValueOf<T[N]>;
};

/** The name of a duration setting has its unit: `resync` becomes `resyncMs`. */
type SettingName<N extends string, S extends FlagSpec> = S extends DurationFlag ? `${CamelCase<N>}Ms` : CamelCase<N>;

/** The name of a flag's value in the settings. */
export function settingName(flag: string, spec: FlagSpec): string {
  const name = flag.replace(/[_-](.)/g, (_, letter: string) => letter.toUpperCase());
  return spec.type === 'duration' ? `${name}Ms` : name;
}
