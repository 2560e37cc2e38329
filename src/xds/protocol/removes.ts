/** Which of the names that are gone go now; the proxy keeps the others until their time comes. */
export type Removes = (name: string) => boolean;

export const ALL_GO: Removes = () => true;
export const NONE_GO: Removes = () => false;
