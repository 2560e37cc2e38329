/** Validation of the mesh's documents for the API server. */
export { validateRequest } from './validate.ts';
