/**
 * Header of requests that the program makes for a policy, whose author chose the URL (a key server). Without it, such a
 * request from loopback would count as one of a user of this machine.
 */
export const INTERNAL_FETCH_HEADER = 'x-meshd-fetch';
