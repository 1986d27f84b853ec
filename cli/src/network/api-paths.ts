/** Where the APIs are served, and by which methods. Loads nothing: completion needs it in an instant. */
export const MANAGEMENT_API = "/edge/management/v1";
export const CLIENT_API = "/edge/client/v1";
export const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;
