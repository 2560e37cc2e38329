/** Which resources that no longer exist are removed from the proxy now, by name; it keeps the others until later. */
export type RemovalPolicy = (name: string) => boolean;

export const REMOVE_ALL: RemovalPolicy = () => true;
export const REMOVE_NONE: RemovalPolicy = () => false;
