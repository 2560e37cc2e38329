/**
 * The program ctl-jwt: prints a token signed with a given key, or the key set that verifies such tokens. It is a tool
 * for testing RequestAuthentication and AuthorizationPolicy and needs no mesh.
 */
import { flagSettings, jwtFlags, usageError } from '../settings/index.ts';
import { type Command, command, type ProgramIo, runSingleCommand } from './program.ts';

export function jwtCommand(): Command {
  return command({
    name: 'ctl-jwt',
    summary: 'Print a JSON Web Token signed with a private key (PEM; RSA, EC or Ed25519), or its key set.',
    flags: jwtFlags,
    arguments: ['KEY.pem'],
    async run({ flags, io }) {
      const { aud, expire, iss, jwks, sub, ...settings } = flagSettings(jwtFlags, flags);
      const claims = claimsOf('claims', settings.claims);
      const nested = claimsOf('nested', settings.nested);
      const [file = ''] = flags.positionals;
      const { readSigningKey } = await import('./jwt-key.ts');
      const { key, alg, kid, jwk } = await readSigningKey(file, settings);
      if (jwks) {
        io.stdout.write(`${JSON.stringify({ keys: [jwk] })}\n`);
        return 0;
      }
      const now = Math.floor(Date.now() / 1000);
      const payload = {
        iss,
        sub: sub === '' ? iss : sub,
        ...(aud.length === 0 ? {} : { aud: aud.length === 1 ? aud[0] : [...aud] }),
        iat: now,
        exp: now + expire,
        ...(Object.keys(nested).length === 0 ? {} : { nested }),
        ...claims,
      };
      const { CompactSign } = await import('jose');
      const token = new CompactSign(new TextEncoder().encode(JSON.stringify(payload)));
      io.stdout.write(`${await token.setProtectedHeader({ alg, kid, typ: 'JWT' }).sign(key)}\n`);
      return 0;
    },
  });
}

/** Runs `ctl-jwt` with the arguments after its name. Resolves with the exit code. */
export function runCtlJwt(args: readonly string[], io: ProgramIo): Promise<number> {
  return runSingleCommand(jwtCommand(), args, io);
}

/** Claims on the command line of ctl-jwt. */
type Claims = Readonly<Record<string, unknown>>;

function objectOf(flag: string, text: string): Claims {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw usageError(`invalid value ${JSON.stringify(text)} for flag --${flag}: not a JSON object`, error);
  }
  // JSON that begins with a brace is an object.
  return value as Claims;
}

function pairsOf(flag: string, text: string): Claims {
  const pairs = text
    .split(',')
    .filter((pair) => pair.trim() !== '')
    .map((pair): [string, string] => {
      const colon = pair.indexOf(':');
      const name = pair.slice(0, Math.max(colon, 0)).trim();
      if (name !== '') return [name, pair.slice(colon + 1)];
      throw usageError(`invalid value ${JSON.stringify(text)} for flag --${flag}: expected name:value,… or JSON`);
    });
  return Object.fromEntries(pairs);
}

/**
 * All claims of one flag. A later claim replaces an earlier one of the same name. Names with colons need the JSON form.
 * Throws a usage error that names the flag.
 */
function claimsOf(flag: string, texts: readonly string[]): Record<string, unknown> {
  const parts = texts.map((text) => (text.trimStart().startsWith('{') ? objectOf(flag, text) : pairsOf(flag, text)));
  return Object.assign({}, ...parts);
}
