/**
 * Which resources that no longer exist are removed from the proxy now, by name; the proxy keeps the other resources
 * until later.
 */
export type RemovalPolicy = (name: string) => boolean;

export const REMOVE_ALL: RemovalPolicy = () => true;
export const REMOVE_NONE: RemovalPolicy = () => false;
