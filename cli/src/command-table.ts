/** The commands, each in a file that is loaded when it is used. */
import type { Configure } from "./commands/configure.ts";

/** A command before its file is loaded. */
export interface CommandEntry {
  readonly name: string;
  readonly group: string;
  readonly summary: string;
  readonly load: () => Promise<Configure>;
}

const NETWORKS = "Networks:";
const ENTITIES = "Entities:";
const ANSWERS = "Answers:";
const OTHERS = "Others:";

/** In the order of the help. */
export const COMMANDS: readonly CommandEntry[] = [
  {
    name: "quickstart",
    group: NETWORKS,
    summary: "make a network on this machine, or go on with it",
    load: async () => (await import("./commands/quickstart.ts")).configureQuickstart,
  },
  {
    name: "login",
    group: NETWORKS,
    summary: "log in to a network",
    load: async () => (await import("./commands/login.ts")).configureLogin,
  },
  {
    name: "logout",
    group: NETWORKS,
    summary: "end the session and forget the network",
    load: async () => (await import("./commands/logout.ts")).configureLogout,
  },
  {
    name: "networks",
    group: NETWORKS,
    summary: "list the saved networks, choose the current one",
    load: async () => (await import("./commands/networks.ts")).configureNetworks,
  },
  {
    name: "whoami",
    group: NETWORKS,
    summary: "show the network, the identity and its session",
    load: async () => (await import("./commands/whoami.ts")).configureWhoami,
  },
  {
    name: "get",
    group: ENTITIES,
    summary: "list entities, or show some by name",
    load: async () => (await import("./commands/get.ts")).configureGet,
  },
  {
    name: "describe",
    group: ENTITIES,
    summary: "show all of an entity with what belongs to it",
    load: async () => (await import("./commands/describe.ts")).configureDescribe,
  },
  {
    name: "create",
    group: ENTITIES,
    summary: "create an entity",
    load: async () => (await import("./commands/create.ts")).configureCreate,
  },
  {
    name: "patch",
    group: ENTITIES,
    summary: "change fields of an entity",
    load: async () => (await import("./commands/patch.ts")).configurePatch,
  },
  {
    name: "edit",
    group: ENTITIES,
    summary: "edit an entity in your editor",
    load: async () => (await import("./commands/edit.ts")).configureEdit,
  },
  {
    name: "delete",
    group: ENTITIES,
    summary: "delete entities",
    load: async () => (await import("./commands/delete.ts")).configureDelete,
  },
  {
    name: "apply",
    group: ENTITIES,
    summary: "make the network as files declare it",
    load: async () => (await import("./commands/declared/apply.ts")).configureApply,
  },
  {
    name: "diff",
    group: ENTITIES,
    summary: "show what apply would change",
    load: async () => (await import("./commands/declared/diff.ts")).configureDiff,
  },
  {
    name: "export",
    group: ENTITIES,
    summary: "print the network as files for apply",
    load: async () => (await import("./commands/declared/export.ts")).configureExport,
  },
  {
    name: "explain",
    group: ENTITIES,
    summary: "describe kinds and their fields",
    load: async () => (await import("./commands/explain.ts")).configureExplain,
  },
  {
    name: "why",
    group: ANSWERS,
    summary: "say why an identity can or cannot reach a service",
    load: async () => (await import("./commands/why.ts")).configureWhy,
  },
  {
    name: "status",
    group: ANSWERS,
    summary: "show the network on one screen, and what fails",
    load: async () => (await import("./commands/status.ts")).configureStatus,
  },
  {
    name: "ping",
    group: ANSWERS,
    summary: "measure a circuit to a service hop by hop",
    load: async () => (await import("./commands/ping.ts")).configurePing,
  },
  {
    name: "bugreport",
    group: ANSWERS,
    summary: "pack versions, state, configuration and logs for a report",
    load: async () => (await import("./commands/bugreport.ts")).configureBugreport,
  },
  {
    name: "service",
    group: OTHERS,
    summary: "run programs of a network as services of systemd",
    load: async () => (await import("./commands/service.ts")).configureService,
  },
  {
    name: "api",
    group: OTHERS,
    summary: "call any operation of the APIs",
    load: async () => (await import("./commands/api.ts")).configureApi,
  },
  {
    name: "completion",
    group: OTHERS,
    summary: "complete command lines in a shell",
    load: async () => (await import("./commands/completion.ts")).configureCompletion,
  },
  {
    name: "version",
    group: OTHERS,
    summary: "show the versions of this program and of the controller",
    load: async () => (await import("./commands/version.ts")).configureVersion,
  },
];
