/** Annotation of a WorkloadEntry that was registered for a machine: the name of its WorkloadGroup. */
export const GROUP_ANNOTATION = 'mesh.io/autoRegistrationGroup';
