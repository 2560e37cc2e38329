/** What a user got wrong on the command line or in the environment. Shown as its message, one line, exit code 1. */
export class UsageError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    // User input appears in messages; a line break in it must not make two lines of one.
    super(message.replace(/\s*[\r\n]+\s*/g, ' '), options);
    this.name = 'UsageError';
  }
}

/** The message of whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
