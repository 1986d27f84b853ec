/** What a namespace asks for that enforces `restricted`, with the user of our images. */
export const RESTRICTED_POD = {
  runAsNonRoot: true,
  runAsUser: 65532,
  fsGroup: 65532,
  seccompProfile: { type: "RuntimeDefault" },
} as const;

/** The same of a container. */
export const RESTRICTED_CONTAINER = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
} as const;
