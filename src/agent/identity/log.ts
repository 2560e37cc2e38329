/** What this room needs of a logger, and how a fault that stays is told once. */

export interface Log {
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void;
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

/** A condition that is good or has a fault. */
export interface Condition {
  /** Warns when the fault is another one than before. */
  fault(reason: string, fields?: Readonly<Record<string, unknown>>): void;
  /** Says so when there was a fault. */
  good(): void;
}

/**
 * `failing` and `well` are the lines' beginnings: "the certificate cannot be renewed", "the certificate is renewed
 * again".
 */
export function condition(log: Log, failing: string, well: string): Condition {
  let reason: string | undefined;
  return {
    fault(now, fields) {
      // Times and numbers of bytes change while the reason stays the same.
      const kind = now.replace(/\d+/g, '0');
      if (kind === reason) log.debug(`${failing}: ${now}`, fields);
      else log.warn(`${failing}: ${now}`, fields);
      reason = kind;
    },
    good() {
      if (reason !== undefined) log.info(well);
      reason = undefined;
    },
  };
}

/** The one line of whatever was thrown. */
export function reasonOf(error: unknown): string {
  if (error instanceof Error && 'oneLine' in error && typeof error.oneLine === 'function')
    return String(error.oneLine());
  return (error instanceof Error ? error.message : String(error)).replaceAll('\n', ' ');
}
