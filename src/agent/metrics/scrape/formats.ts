/**
 * The formats of a scrape: the text format 0.0.4 of Prometheus, and OpenMetrics 1.0, which is text as well. The
 * protobuf format is never negotiated: parts of it cannot be concatenated.
 */

export type Format = 'text' | 'openmetrics';

/** Versions of OpenMetrics with the same syntax, the preferred one first. */
const OPEN_METRICS_VERSIONS: readonly string[] = ['1.0.0', '0.0.1'];
const OPEN_METRICS = 'application/openmetrics-text';
const TEXT = 'text/plain;version=0.0.4';

interface MediaType {
  /** In lower case. */
  readonly type: string;
  readonly parameters: ReadonlyMap<string, string>;
}

function mediaType(text: string): MediaType {
  const [type = '', ...rest] = text.split(';').map((part) => part.trim());
  const parameters = rest.map((part): [string, string] => {
    const [name = '', value = ''] = part.split('=', 2).map((each) => each.trim());
    return [name.toLowerCase(), value.replace(/^"(.*)"$/, '$1')];
  });
  return { type: type.toLowerCase(), parameters: new Map(parameters) };
}

/** The versions of OpenMetrics that an Accept header (RFC 9110, section 12.5.1) asks for; none: only the text format. */
export function acceptedOpenMetrics(accept: string | undefined): readonly string[] {
  const asked = (accept ?? '').split(',').map(mediaType);
  const versions = asked
    .filter(({ type, parameters }) => type === OPEN_METRICS && Number(parameters.get('q') ?? 1) !== 0)
    .map(({ parameters }) => parameters.get('version') ?? '1.0.0');
  return OPEN_METRICS_VERSIONS.filter((version) => versions.includes(version));
}

/** The Accept header for an application whose metrics are passed on to a scraper that accepts these. */
export function acceptHeader(openMetrics: readonly string[]): string {
  const preferred = openMetrics.map((version, index) => `${OPEN_METRICS};version=${version};q=0.${9 - index}`);
  return [...preferred, preferred.length === 0 ? TEXT : `${TEXT};q=0.5`].join(',');
}

/**
 * The format that a Content-Type announces: text, unless it is OpenMetrics. Many applications declare metrics in the
 * text format as another type (`text/html`), so each line decides. Undefined for any other value.
 */
export function parseFormat(contentType: string | undefined): Format | undefined {
  const { type } = mediaType(contentType ?? '');
  if (type === OPEN_METRICS) return 'openmetrics';
  return /protobuf|octet-stream/.test(type) ? undefined : 'text';
}

/** The Content-Type of a scrape. */
export function contentTypeOf(format: Format, openMetrics: readonly string[]): string {
  return format === 'text'
    ? 'text/plain; version=0.0.4; charset=utf-8'
    : `${OPEN_METRICS}; version=${openMetrics[0] ?? '1.0.0'}; charset=utf-8`;
}
