/** Units of systemd for the programs of a network: of packages, of a machine, and of a user. */

/** Programs that packages have units for. */
export const PACKAGED = ["controller", "router", "tunnel"] as const;
/** What `sallyport quickstart` and `sallyport quickstart --join` run, with what they have made before. */
export const QUICKSTARTS = ["quickstart", "join"] as const;
export const SERVICES = [...PACKAGED, ...QUICKSTARTS] as const;

export type Packaged = (typeof PACKAGED)[number];
export type Service = (typeof SERVICES)[number];

export function isPackaged(service: Service): service is Packaged {
  return PACKAGED.some((each) => each === service);
}

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
  /** User of the system unit; that of packages, or root, when absent. */
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

const KINDS: Readonly<Record<Packaged, Kind>> = {
  controller: {
    description: "controller",
    after: "",
    file: "controller.yml",
    args: { system: ["run", "controller.yml"], user: ["run", "controller.yml"] },
    capabilities: BIND,
    why: "Ports below 1024, and nothing else.",
  },
  router: {
    description: "edge router",
    after: " sallyport-controller.service",
    file: "router.yml",
    before: ["enroll", "router.yml", "--if-needed", "--jwt", "router.jwt"],
    args: { system: ["run", "router.yml"], user: ["run", "router.yml"] },
    capabilities: BIND,
    why: "Ports below 1024, and nothing else. A router whose tunneler intercepts needs CAP_NET_ADMIN, too.",
  },
  tunnel: {
    description: "tunneler",
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
export function systemFolder(service: Packaged): string {
  return `/var/lib/sallyport-${service}`;
}

const MADE: Readonly<Record<(typeof QUICKSTARTS)[number], string>> = {
  quickstart: "quickstart.json",
  join: "joined.json",
};

/** The file in its folder without which a service has nothing to run. */
export function fileOf(service: Service): string {
  return isPackaged(service) ? KINDS[service].file : MADE[service];
}

/** The text of a unit. @throws TypeError for an argument that cannot stand in one */
export function unitText(options: UnitOptions): string {
  const { service } = options;
  return `${(isPackaged(service) ? programLines(service, options) : quickstartLines(service, options)).join("\n")}\n`;
}

function programLines(service: Packaged, { scope, command, args, folder, user = SYSTEM_USER }: UnitOptions): string[] {
  const { description, after, file, before, args: standard, capabilities, why } = KINDS[service];
  const isSystem = scope === "system";
  const isOfPackages = folder === systemFolder(service);
  const state = isOfPackages ? [`StateDirectory=sallyport-${service}`, "StateDirectoryMode=0700"] : [];
  // Another user may have another group.
  const owner = [`User=${user}`, ...(user === SYSTEM_USER ? [`Group=${user}`] : [])];
  return [
    ...unitSection(`Sallyport ${description}`, scope, `${folder}/${file}`, after),
    ...(isSystem ? [...owner, ...state] : []),
    `WorkingDirectory=${escapedPath(folder)}`,
    ...(before === undefined ? [] : [`ExecStartPre=${commandLine([...command, ...before])}`]),
    `ExecStart=${commandLine([...command, ...(args ?? standard[scope])])}`,
    ...RUNNING,
    "TimeoutStopSec=60",
    "",
    ...(isSystem ? [`# ${why}`, `AmbientCapabilities=${capabilities}`, `CapabilityBoundingSet=${capabilities}`] : []),
    ...(isSystem ? HARDENED_SYSTEM : []),
    ...(isSystem ? [`ReadWritePaths=/tmp${isOfPackages ? "" : ` ${escaped(folder)}`}`] : []),
    ...HARDENED,
    ...installSection(scope),
  ];
}

/** It runs as the user who has made it, with that user's files, and a tunneler that intercepts writes /etc/hosts. */
function quickstartLines(
  service: (typeof QUICKSTARTS)[number],
  { scope, command, args, folder, user = "root" }: UnitOptions,
): string[] {
  const standard = ["quickstart", ...(service === "join" ? ["--join"] : []), "--dir", "."];
  return [
    ...unitSection(
      `Sallyport ${service === "join" ? "machine of a network" : "network"}`,
      scope,
      `${folder}/${MADE[service]}`,
      "",
    ),
    ...(scope === "system" ? [`User=${user}`] : []),
    `WorkingDirectory=${escapedPath(folder)}`,
    `ExecStart=${commandLine([...command, ...standard, ...(args ?? [])])}`,
    "# It stops its programs in order.",
    "KillMode=mixed",
    ...RUNNING,
    "TimeoutStopSec=90",
    "",
    ...(scope === "system" ? PROTECTED : []),
    ...HARDENED,
    ...installSection(scope),
  ];
}

function unitSection(description: string, scope: Scope, file: string, after: string): string[] {
  // A user's manager has no targets of the network, and no unit of the system.
  const network = scope === "system" ? [`After=network-online.target${after}`, "Wants=network-online.target"] : [];
  return [
    "[Unit]",
    `Description=${description}`,
    ...network,
    `ConditionPathExists=${escapedPath(file)}`,
    "",
    "[Service]",
  ];
}

function installSection(scope: Scope): string[] {
  return ["", "[Install]", `WantedBy=${scope === "system" ? "multi-user.target" : "default.target"}`];
}

const RUNNING: readonly string[] = ["Restart=on-failure", "RestartSec=2", "LimitNOFILE=65536"];

/** What no program of a network changes, whichever user runs it. */
const PROTECTED: readonly string[] = [
  "ProtectClock=yes",
  "ProtectControlGroups=yes",
  "ProtectKernelLogs=yes",
  "ProtectKernelModules=yes",
  "ProtectKernelTunables=yes",
];

/** What needs the system's own manager: a user's one has no right to make such namespaces everywhere. */
const HARDENED_SYSTEM: readonly string[] = [
  "PrivateDevices=yes",
  "# It runs as a user without rights and sees of the system only what it needs.",
  "ProtectSystem=strict",
  "ProtectHome=yes",
  "ProtectProc=invisible",
  ...PROTECTED,
  "ProtectHostname=yes",
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

function commandLine(words: readonly string[]): string {
  return words.map(escaped).join(" ");
}

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
