/** Validation of the mesh's documents for the API server. */
export { candidateOf, validateRequest } from './validate.ts';
