import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { errorText } from "@sallyport/async";
import type { Path } from "@sallyport/config-file";
import type { RouterConfig } from "@sallyport/router-config";
import { type Identity, loadIdentity, silentLogger } from "@sallyport/wire";
import { readEndpointsFile } from "../../control/controllers/endpoints-file.ts";
import { uncoveredHosts } from "../certificate-names.ts";
import { BindError, resolveBind } from "../network-interfaces.ts";
import { type ConfigSource, formatRemark, type Remark } from "../remark.ts";
import { takenPlaces } from "./listening-places.ts";

/** What the rules look at. */
export interface Start {
  readonly config: RouterConfig;
  /** Absent while the router is not enrolled: what depends on its certificates or controllers is then not judged. */
  readonly identity: Identity | undefined;
  /** Where file names in the configuration are relative to. */
  readonly baseDir: string;
  readonly endpointsFile: string;
}

type Rule = (start: Start) => readonly Remark[] | Promise<readonly Remark[]>;

/** Everything that `run` refuses to start with before it opens a port, and `check` reports: there is no second list. */
const RULES: readonly Rule[] = [
  edgeSection,
  serverCertificate,
  controllers,
  localBinds,
  ({ config }) => takenPlaces(config),
  ({ config, identity }) => (identity === undefined ? [] : uncoveredHosts(config, identity)),
  furtherIdentities,
  traceFile,
  interception,
];

/** Everything that keeps a router from starting, that is known before anything is opened; all at once. */
export async function startProblems(start: Start): Promise<Remark[]> {
  const problems: Remark[] = [];
  for (const rule of RULES) problems.push(...(await rule(start)));
  return problems;
}

/** No controller is known: neither the file nor what the network announced names one. */
export function noController(endpointsFile: string): Remark {
  const text = `no controller is known: set ctrl.endpoint or ctrl.endpoints (the endpoints file ${endpointsFile} names none either)`;
  return { path: ["ctrl"], text };
}

function edgeSection({ config }: Start): Remark[] {
  if (config.edge !== undefined) return [];
  const text = "there is an edge listener, but no edge section: add `edge: {}`";
  return config.listeners.flatMap(({ binding }, i) => (binding === "edge" ? [{ path: ["listeners", i], text }] : []));
}

function serverCertificate({ config, identity }: Start): Remark[] {
  const listens =
    config.listeners.some(({ binding }) => binding === "edge") || (config.link?.listeners.length ?? 0) > 0;
  if (!listens || identity === undefined || identity.serverCertPem !== undefined) return [];
  return [{ path: ["identity", "server_cert"], text: "it is missing: a router that listens needs it" }];
}

async function controllers({ config, identity, endpointsFile }: Start): Promise<Remark[]> {
  if (identity === undefined || config.ctrl.endpoints.length > 0) return [];
  const saved = await readEndpointsFile(endpointsFile, silentLogger);
  return saved.length > 0 ? [] : [noController(endpointsFile)];
}

function localBinds({ config }: Start): Remark[] {
  const binds: (readonly [Path, string | undefined])[] = [
    [["ctrl", "bind"], config.ctrl.bind],
    ...(config.link?.dialers ?? []).map(({ bind }, i) => [["link", "dialers", i, "bind"], bind] as const),
    ...config.dialers.map(({ bind }, i) => [["dialers", i, "bind"], bind] as const),
  ];
  return binds.flatMap(([path, bind]) => {
    try {
      if (bind !== undefined) resolveBind(bind);
      return [];
    } catch (error) {
      if (!(error instanceof BindError)) throw error;
      return [{ path, text: error.message }];
    }
  });
}

async function furtherIdentities({ config, baseDir }: Start): Promise<Remark[]> {
  const wss = config.transport.wss.identity;
  const isServed = config.listeners.some((l) => l.binding === "edge" && l.address.protocol === "wss");
  const identities = [
    ...config.web.map(({ identity }, i) => ({ path: ["web", i, "identity"], identity })),
    ...(isServed ? [{ path: ["transport", "wss", "identity"], identity: wss }] : []),
  ];
  const problems: Remark[] = [];
  for (const { path, identity } of identities) {
    try {
      if (identity !== undefined) await loadIdentity(identity, baseDir);
    } catch (error) {
      problems.push({ path, text: errorText(error) });
    }
  }
  return problems;
}

async function traceFile({ config, baseDir }: Start): Promise<Remark[]> {
  if (config.trace === undefined) return [];
  const path = resolve(baseDir, config.trace.path);
  const exists = await access(path).then(
    () => true,
    () => false,
  );
  try {
    await access(exists ? path : dirname(path), constants.W_OK);
    return [];
  } catch (error) {
    return [{ path: ["trace", "path"], text: `the file cannot be written: ${errorText(error)}` }];
  }
}

async function interception({ config }: Start): Promise<Remark[]> {
  const i = config.listeners.findLastIndex(({ binding }) => binding === "tunnel");
  const listener = config.listeners[i];
  if (listener?.binding !== "tunnel" || !listener.options.mode.startsWith("tproxy")) return [];
  const { hasInterface, probeDiverter } = await import("@sallyport/tunnel");
  const { mode, lanIf } = listener.options;
  const at = (key: string, text: string): Remark => ({ path: ["listeners", i, "options", key], text });
  if (process.platform !== "linux") return [at("mode", `tproxy needs Linux, and this is ${process.platform}`)];
  const problems: Remark[] = [];
  if (lanIf !== undefined && !hasInterface(lanIf)) {
    problems.push(at("lanIf", `expected a network interface of this machine, found "${lanIf}"`));
  }
  const [, diverter] = /^tproxy:(.+)$/.exec(mode) ?? [];
  if (diverter !== undefined) {
    await probeDiverter(diverter).catch((error: unknown) => {
      problems.push(at("mode", errorText(error)));
    });
  }
  return problems;
}

/** The router cannot start as it is configured; the message says what to change, and where if `source` is known. */
export class RouterStartError extends Error {
  override readonly name = "RouterStartError";
  readonly code = "CANNOT_START";

  constructor(problems: readonly Remark[], source?: ConfigSource, options?: ErrorOptions) {
    super(problems.map((problem) => formatRemark(problem, source)).join("\n"), options);
  }
}
