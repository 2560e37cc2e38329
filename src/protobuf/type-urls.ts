/** Type URLs, which name the message in an Any. Those of xDS resource types are in core/xds-types.ts. */

const PREFIX = 'type.googleapis.com/';

/** The full message name in a type URL: the part after the last slash. */
export function messageNameOf(typeUrl: string): string {
  return typeUrl.slice(typeUrl.lastIndexOf('/') + 1);
}

/** The type URL of a full message name. */
export function typeUrlOf(messageName: string): string {
  return PREFIX + messageName;
}
