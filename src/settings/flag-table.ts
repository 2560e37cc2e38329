/**
 * What a table of flags is. A flag stands in one table, under the name that users type; parser, help, default, type and
 * setting name come from there. A flag enters its table when what it does exists.
 */

/** What all flags have. `check` throws an `Error` saying what is wrong with a value. */
interface FlagBase<V> {
  /** As the specification words it. */
  readonly meaning: string;
  /** One letter, without dash. */
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
  /**
   * What counts when the flag is not given, where that is not the default that the specification names; the meaning
   * says so.
   */
  readonly whenNotGiven?: string;
  /** The only values taken, besides the default. */
  readonly values?: readonly string[];
}

interface NumberFlag extends FlagBase<number> {
  readonly type: 'int' | 'uint16';
  readonly default: number;
  /** Least value taken. */
  readonly min?: number;
  /** What is counted, for messages: `days`. */
  readonly unit?: string;
}

/** Written as a Go duration; its value is milliseconds. */
interface DurationFlag extends FlagBase<number> {
  readonly type: 'duration';
  readonly default: string;
  /** Least value taken, ms. */
  readonly min?: number;
}

/** A `stringSlice` takes comma-separated items, a `stringArray` one item each time; both may be given repeatedly. */
interface ListFlag extends FlagBase<readonly string[]> {
  readonly type: 'stringSlice' | 'stringArray';
  readonly default: readonly string[];
  /** The only items taken. */
  readonly values?: readonly string[];
}

export type FlagSpec = BoolFlag | TextFlag | NumberFlag | DurationFlag | ListFlag;

export type FlagTable = Readonly<Record<string, FlagSpec>>;

/** What the value of a flag is inside the program: durations are numbers of milliseconds. */
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

/** The typed settings that a table gives. */
export type FlagValues<T extends FlagTable> = {
  readonly [N in keyof T & string as SettingName<N, T[N]>]: ValueOf<T[N]>;
};

/** Durations say their unit: `resync` is the setting `resyncMs`. */
type SettingName<N extends string, S extends FlagSpec> = S extends DurationFlag ? `${CamelCase<N>}Ms` : CamelCase<N>;

/** The name under which a flag's value stands in the settings. */
export function settingName(flag: string, spec: FlagSpec): string {
  const name = flag.replace(/[_-](.)/g, (_, letter: string) => letter.toUpperCase());
  return spec.type === 'duration' ? `${name}Ms` : name;
}
