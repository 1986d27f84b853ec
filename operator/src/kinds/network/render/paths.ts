/** Where things are in the controller's pod. */
export const PATHS = {
  config: { folder: "/etc/sallyport/controller", file: "/etc/sallyport/controller/controller.yml" },
  key: { folder: "/etc/sallyport/key", file: "/etc/sallyport/key/secret.key" },
  admin: {
    folder: "/etc/sallyport/admin",
    username: "/etc/sallyport/admin/username",
    password: "/etc/sallyport/admin/password",
  },
  database: { folder: "/etc/sallyport/database", file: "/etc/sallyport/database/url" },
  certificate: { folder: "/etc/sallyport/certificate" },
  data: {
    folder: "/var/lib/sallyport",
    database: "/var/lib/sallyport/database",
    snapshots: "/var/lib/sallyport/snapshots",
  },
} as const;

/** User and group of the programs in the images. */
export const USER = 65_532;
