/** `configSources` of the mesh configuration. */
import { type ConfigSourceSettings, parseConfigSource } from '../config-source.ts';
import type { ValidationErrors } from './validation-errors.ts';

/** The most sources: each is a connection, and its documents take memory. */
const MAX_SOURCES = 16;

const EXPECTED = 'expected fs:///DIRECTORY, k8s://, xds://HOST:PORT, or HOST:PORT of a server of MCP';

export function checkConfigSources(errors: ValidationErrors, sources: readonly ConfigSourceSettings[]): void {
  if (sources.length > MAX_SOURCES) errors.add([], `expected at most ${MAX_SOURCES} sources, got ${sources.length}`);
  const seen = new Set<string>();
  for (const [index, source] of sources.entries()) {
    const { address } = source;
    if (parseConfigSource(address) === undefined) errors.add([index, 'address'], `${EXPECTED}, got "${address}"`);
    else if (seen.has(address)) errors.add([index, 'address'], `expected each address once, got "${address}" again`);
    seen.add(address);
    checkTls(errors.at(index, 'tlsSettings'), source);
  }
}

/** Files that each mode needs. */
const FILES = {
  SIMPLE: ['caCertificates'],
  MUTUAL: ['clientCertificate', 'privateKey', 'caCertificates'],
} as const;

function checkTls(errors: ValidationErrors, { address, tlsSettings }: ConfigSourceSettings): void {
  if (tlsSettings === undefined) return;
  const kind = parseConfigSource(address)?.kind;
  if (kind === 'directory' || kind === 'cluster') errors.add([], 'expected none: nothing is connected to');
  // Documents of anyone who answers at the address would be in force.
  if (tlsSettings.insecureSkipVerify === true) errors.add(['insecureSkipVerify'], 'expected false');
  for (const field of ['credentialName', 'caCrl'] as const)
    if (tlsSettings[field] !== undefined)
      errors.add([field], 'not supported here: the files of the other fields are read');
  const { mode = 'DISABLE' } = tlsSettings;
  const needed = mode === 'SIMPLE' || mode === 'MUTUAL' ? FILES[mode] : [];
  for (const field of needed)
    if ((tlsSettings[field] ?? '') === '')
      errors.add([field], `required for mode ${mode}, expected the path of a file`);
}
