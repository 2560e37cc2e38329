/**
 * Says of a request that the program makes it for somebody else, who has chosen its URL (the key server of a policy):
 * from loopback, it would else be taken for one of the machine's own people.
 */
export const OWN_FETCH_HEADER = 'x-meshd-fetch';
