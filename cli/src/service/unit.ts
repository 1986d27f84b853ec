/** Units of systemd for the programs of a network: of packages, of a machine, and of a user. */

export const SERVICES = ["controller", "router", "tunnel"] as const;
export type Service = (typeof SERVICES)[number];

/** Of the whole machine, or of one user. */
export type Scope = "system" | "user";

export interface UnitOptions {
  readonly service: Service;
  readonly scope: Scope;
  /** The program and what stands before its arguments. */
  readonly command: readonly string[];
  /** Its arguments, in place of the usual ones. */
  readonly args?: readonly string[] | undefined;
  /** Where it works, with its files. */
  readonly folder: string;
  /** User of the system unit. */
  readonly user?: string;
}

/** The user of system units, whose folders are `/var/lib/sallyport-…`. */
export const SYSTEM_USER = "sallyport";

interface Kind {
  readonly description: string;
  readonly after: string;
  /** Without it there is nothing to run. */
  readonly file: string;
  /** The first arguments of a start that only prepares. */
  readonly before?: readonly string[];
  readonly args: Readonly<Record<Scope, readonly string[]>>;
  readonly capabilities: string;
  /** Why these. */
  readonly why: string;
}

const BIND = "CAP_NET_BIND_SERVICE";

const KINDS: Readonly<Record<Service, Kind>> = {
  controller: {
    description: "Sallyport controller",
    after: "",
    file: "controller.yml",
    args: { system: ["run", "controller.yml"], user: ["run", "controller.yml"] },
    capabilities: BIND,
    why: "Ports below 1024, and nothing else.",
  },
  router: {
    description: "Sallyport edge router",
    after: " sallyport-controller.service",
    file: "router.yml",
    before: ["enroll", "router.yml", "--if-needed", "--jwt", "router.jwt"],
    args: { system: ["run", "router.yml"], user: ["run", "router.yml"] },
    capabilities: BIND,
    why: "Ports below 1024, and nothing else. A router whose tunneler intercepts needs CAP_NET_ADMIN, too.",
  },
  tunnel: {
    description: "Sallyport tunneler",
    after: "",
    file: "identity.json",
    args: { system: ["run", "-i", "identity.json"], user: ["host", "-i", "identity.json"] },
    capabilities: `CAP_NET_ADMIN ${BIND}`,
    why: "Routes, transparent sockets, the name server's port 53.",
  },
};

/** Name of the unit. */
export function unitName(service: Service): string {
  return `sallyport-${service}.service`;
}

/** The folder of the unit that packages install. */
export function systemFolder(service: Service): string {
  return `/var/lib/sallyport-${service}`;
}

/** The file in its folder without which a service has nothing to run. */
export function fileOf(service: Service): string {
  return KINDS[service].file;
}

/** The text of a unit. @throws TypeError for an argument that cannot stand in one */
export function unitText({ service, scope, command, args, folder, user = SYSTEM_USER }: UnitOptions): string {
  const { description, after, file, before, args: standard, capabilities, why } = KINDS[service];
  const line = (words: readonly string[]) => [...command, ...words].map(escaped).join(" ");
  const isSystem = scope === "system";
  const isOfPackages = folder === systemFolder(service);
  // A user's manager has no targets of the network, and no unit of the system.
  const network = isSystem ? [`After=network-online.target${after}`, "Wants=network-online.target"] : [];
  const state = isOfPackages ? [`StateDirectory=sallyport-${service}`, "StateDirectoryMode=0700"] : [];
  return `${[
    "[Unit]",
    `Description=${description}`,
    ...network,
    `ConditionPathExists=${escapedPath(`${folder}/${file}`)}`,
    "",
    "[Service]",
    ...(isSystem ? [`User=${user}`, `Group=${user}`, ...state] : []),
    `WorkingDirectory=${escapedPath(folder)}`,
    ...(before === undefined ? [] : [`ExecStartPre=${line(before)}`]),
    `ExecStart=${line(args ?? standard[scope])}`,
    "Restart=on-failure",
    "RestartSec=2",
    "TimeoutStopSec=60",
    "LimitNOFILE=65536",
    "",
    ...(isSystem ? [`# ${why}`, `AmbientCapabilities=${capabilities}`, `CapabilityBoundingSet=${capabilities}`] : []),
    ...(isSystem ? HARDENED_SYSTEM : []),
    ...(isSystem ? [`ReadWritePaths=/tmp${isOfPackages ? "" : ` ${escaped(folder)}`}`] : []),
    ...HARDENED,
    "",
    "[Install]",
    `WantedBy=${isSystem ? "multi-user.target" : "default.target"}`,
  ].join("\n")}\n`;
}

/** What needs the system's own manager: a user's one has no right to make such namespaces everywhere. */
const HARDENED_SYSTEM: readonly string[] = [
  "PrivateDevices=yes",
  "# It runs as a user without rights and sees of the system only what it needs.",
  "ProtectSystem=strict",
  "ProtectHome=yes",
  "ProtectProc=invisible",
  "ProtectClock=yes",
  "ProtectControlGroups=yes",
  "ProtectHostname=yes",
  "ProtectKernelLogs=yes",
  "ProtectKernelModules=yes",
  "ProtectKernelTunables=yes",
  "RemoveIPC=yes",
  "# `status` finds a running program by its socket there.",
];

const HARDENED: readonly string[] = [
  "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK",
  "NoNewPrivileges=yes",
  "LockPersonality=yes",
  "RestrictNamespaces=yes",
  "RestrictRealtime=yes",
  "RestrictSUIDSGID=yes",
  "SystemCallArchitectures=native",
  "SystemCallFilter=@system-service",
  "SystemCallErrorNumber=EPERM",
  "UMask=0077",
];

/** A word of a command line as systemd reads it (systemd.service(5), "Command lines"). */
function escaped(word: string): string {
  const text = checked(word)
    .replaceAll("\\", "\\\\")
    .replaceAll('"', '\\"')
    .replaceAll("%", "%%")
    .replaceAll("$", "$$$$");
  return /^[\w@%+=:,./$-]+$/.test(text) ? text : `"${text}"`;
}

/** A path as the value of a setting, where quotation marks would be part of it. */
function escapedPath(path: string): string {
  return checked(path).replaceAll("%", "%%");
}

function checked(text: string): string {
  if (!/[\p{Cc}]/u.test(text)) return text;
  throw new TypeError(`${JSON.stringify(text)} has control characters, which cannot stand in a unit of systemd`);
}
