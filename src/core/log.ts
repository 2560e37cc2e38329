/** The logger interface of modules that do not create loggers themselves, and a log of lasting failures. */

export interface Log {
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void;
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

/** Logs a repeated operation that may fail many times for the same reason. */
export interface FailureLog {
  /** Logs a warning if the reason differs from that of the previous failure; repetitions are logged at debug level. */
  failed(reason: string, fields?: Readonly<Record<string, unknown>>): void;
  /** Logs the recovery, if the operation had failed. */
  succeeded(): void;
}

/**
 * @param failing begins each line about a failure: `the certificate cannot be renewed`
 * @param recovered is logged at the first success after a failure: `the certificate can be renewed again`
 */
export function createFailureLog(log: Log, failing: string, recovered: string): FailureLog {
  let lastReason: string | undefined;
  return {
    failed(reason, fields) {
      // Times and byte counts change while the reason stays the same.
      const normalized = reason.replace(/\d+/g, '0');
      if (normalized === lastReason) log.debug(`${failing}: ${reason}`, fields);
      else log.warn(`${failing}: ${reason}`, fields);
      lastReason = normalized;
    },
    succeeded() {
      if (lastReason !== undefined) log.info(recovered);
      lastReason = undefined;
    },
  };
}

/**
 * Failure logs of several operations, by name: a reason that several operations share is logged once, and the recovery
 * when all have recovered.
 */
export function createSharedFailureLog(log: Log, failing: string, recovered: string): (name: string) => FailureLog {
  const reasons = new Map<string, string>();
  return (name) => ({
    failed(reason, fields) {
      const normalized = reason.replace(/\d+/g, '0');
      const isNew = ![...reasons.values()].includes(normalized);
      reasons.set(name, normalized);
      if (isNew) log.warn(`${failing}: ${reason}`, fields);
      else log.debug(`${failing}: ${reason}`, fields);
    },
    succeeded() {
      if (reasons.delete(name) && reasons.size === 0) log.info(recovered);
    },
  });
}
