/** The value of `--extregistryServerURL`: URLs of servers of one external registry, separated by commas. */
import { usageError } from './errors.ts';

/** @throws CtlError for anything but http and https URLs without credentials, query and fragment */
export function registryServers(text: string): readonly URL[] {
  const written = text.split(',').flatMap((each) => each.trim() || []);
  return written.map((each) => {
    const url = URL.parse(each);
    if (url === null || !['http:', 'https:'].includes(url.protocol)) {
      throw usageError(`expected http or https URLs separated by commas, got ${JSON.stringify(each.slice(0, 200))}`);
    }
    if (url.username !== '' || url.password !== '') {
      throw usageError('expected a URL without credentials; the token is in the file of CTL_EXTREGISTRY_TOKEN_FILE');
    }
    if (url.search !== '' || url.hash !== '') throw usageError('expected a URL without query and fragment');
    return url;
  });
}
