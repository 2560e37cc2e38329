/**
 * Header of requests that the program makes to a URL that the author of a policy chose (a key server). Without it, a
 * server on this machine would treat such a request as one from a local user.
 */
export const INTERNAL_FETCH_HEADER = 'x-meshd-fetch';
