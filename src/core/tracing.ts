/** The tracing settings in a proxy's own configuration. */

/** Where the value of a tag comes from: exactly one of these. */
export interface SpanTag {
  readonly literal?: { readonly value: string } | undefined;
  readonly environment?: { readonly name: string; readonly defaultValue?: string | undefined } | undefined;
  readonly header?: { readonly name: string; readonly defaultValue?: string | undefined } | undefined;
  readonly formatter?: { readonly value: string } | undefined;
}

export interface OwnTracing {
  /** Percent of the requests without a decision about tracing. */
  readonly sampling?: number | undefined;
  readonly maxPathTagLength?: number | undefined;
  readonly customTags?: Readonly<Record<string, SpanTag>> | undefined;
  /** Whether spans have the tags of Istio about the proxy. */
  readonly enableIstioTags?: boolean | undefined;
}
