/** Type URLs, which name the message in an Any. Those of xDS resource types are in core/xds-types.ts. */

/** The full message name in a type URL: the part after the last slash. */
export function messageNameOf(typeUrl: string): string {
  return typeUrl.slice(typeUrl.lastIndexOf('/') + 1);
}
