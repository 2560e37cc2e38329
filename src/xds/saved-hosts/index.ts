/** Learned hosts, saved for the next run of the program and shared by replicas. */
export { configMap } from './config-map.ts';
export { fileIn } from './file.ts';
export { SavedHosts } from './saved-hosts.ts';
