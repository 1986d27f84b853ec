import { isIP } from "node:net";
import { ConfigError, type ConfigProblem } from "@sallyport/config-file";
import type { EdgeRouterSpec } from "@sallyport/resources";
import { type RouterConfigFile, validateRouterConfig, writeRouterConfig } from "@sallyport/router-config";
import { hashOf, isMap, mergePatch, sorted } from "../../../children/json-value.ts";
import type { Controllers } from "../../network/interface.ts";
import { type Address, addressText, NODE_ADDRESS, serviceNames } from "./address.ts";
import {
  CONTAINERS,
  entityName,
  healthPort,
  offeredPort,
  offeredPorts,
  PATHS,
  type RenderedResource,
  VOLUMES,
} from "./names.ts";

/** What the file of one router is made from, besides the spec. */
export interface ConfigInput {
  readonly ordinal: number;
  /** Where others reach it; undefined: not at all. */
  readonly address: Address | undefined;
  /** Hosts that its certificate gets, besides those of its Service. */
  readonly hosts: readonly string[];
  readonly controllers: Controllers;
}

/** A finding in a spec, at its path. */
export interface SpecProblem {
  readonly path: string;
  readonly message: string;
}

export type RenderedConfig =
  | {
      readonly text: string;
      /** Changes with what the file means, and only with that. */
      readonly hash: string;
    }
  | { readonly problems: readonly SpecProblem[] };

/** Stands for the node's address while the file is checked; from a network for documentation. */
const STAND_IN = "192.0.2.254";
const TYPED = ["forwarder", "metrics", "healthChecks", "csr"] as const;
/** Lists whose order means nothing. */
const ANY_PROTOCOL = "tls:0.0.0.0";

/**
 * The file of one router: what the design of the pods wants, the sections of the spec, and the overrides at the end; checked by the router's own
 * rules (docs/operator/edge-router.md, "The router's file"). Equal input gives equal bytes.
 */
export function renderRouterConfig(resource: RenderedResource, input: ConfigInput): RenderedConfig {
  const { spec, metadata } = resource;
  const base = baseDocument(resource, input);
  const overrides = spec.config?.overrides ?? {};
  const refused = protectedPaths(overrides, base);
  if (refused.length > 0) return { problems: refused };
  const document = sorted(mergePatch(base, overrides)) as RouterConfigFile;
  const problems = [...dollarPaths(document), ...findings(document)].map(({ path, message }) => ({
    path: originOf(path, overrides, spec),
    message,
  }));
  if (problems.length > 0) return { problems };
  // In a comment whatever ends a line would end the comment.
  const name = entityName(resource, input.ordinal).replaceAll(/[\p{Cc}\u2028\u2029]/gu, "?");
  const header = `Rendered by the operator for router ${name} of EdgeRouter ${metadata.namespace}/${metadata.name}.\nWhat is changed here is lost: use spec.config.overrides.`;
  const written = writeRouterConfig(document, { header });
  const text = input.hosts.includes(NODE_ADDRESS) ? written.replaceAll(STAND_IN, NODE_ADDRESS) : written;
  return { text, hash: hashOf(input.controllers.areChosen ? document : withoutEndpoints(document)) };
}

/** Controllers that the network told of itself are where a router begins to ask; it follows them by itself. */
function withoutEndpoints(document: RouterConfigFile): unknown {
  const { endpoints: _learned, ...ctrl } = isMap(document.ctrl) ? (document.ctrl as Record<string, unknown>) : {};
  return { ...document, ctrl };
}

/** Fields without a value do not come into the file. */
function baseDocument(resource: RenderedResource, input: ConfigInput): Record<string, unknown> {
  const { spec } = resource;
  const { controllers } = input;
  const address = input.address && { ...input.address, host: shown(input.address.host) };
  const listen = `${ANY_PROTOCOL}:${spec.edge.port}`;
  const groups = spec.link.groups?.toSorted();
  const dialers = spec.link.dial ? [{ binding: "transport", groups }] : undefined;
  const listeners =
    spec.link.listen && address !== undefined
      ? [{ binding: "transport", bind: listen, advertise: `tls:${addressText(address)}`, groups }]
      : undefined;
  return {
    v: 3,
    identity: {
      cert: `${PATHS.data}/client.crt`,
      server_cert: `${PATHS.data}/server.crt`,
      key: `${PATHS.data}/key.pem`,
      ca: `${PATHS.data}/ca.pem`,
    },
    ctrl: {
      endpoints: controllers.endpoints.length === 0 ? undefined : controllers.endpoints.toSorted(),
      endpointsFile: `${PATHS.data}/${endpointsFileName(controllers)}`,
      // A pod that ended without a controller would be started again, later and later.
      startupTimeout: "0s",
    },
    csr: csrOf(resource, input),
    edge: {},
    link: (dialers ?? listeners) && { dialers, listeners },
    listeners: [
      ...(address === undefined
        ? []
        : [{ binding: "edge", address: listen, options: { advertise: addressText(address) } }]),
      ...(spec.tunneler.enabled ? [tunnelListener(spec.tunneler)] : []),
    ],
    dialers: [{ binding: "transport" }],
    shutdown: { drainTimeout: `${spec.drainSeconds}s` },
    ...Object.fromEntries(
      TYPED.filter((name) => name !== "csr" && spec[name] !== undefined).map((name) => [name, spec[name]]),
    ),
    web: [healthServer(spec)],
  };
}

/** What the router has learned counts before the file: other chosen controllers start again, in a file of their own. */
const endpointsFileName = ({ endpoints, areChosen }: Controllers): string =>
  areChosen ? `endpoints-${hashOf(endpoints.toSorted()).slice(0, 8)}.yml` : "endpoints.yml";

function healthServer(spec: EdgeRouterSpec): Record<string, unknown> {
  const port = healthPort(spec);
  return {
    name: "health",
    bindPoints: [{ interface: `0.0.0.0:${port}`, address: `127.0.0.1:${port}` }],
    apis: [{ binding: "health-checks" }, ...(spec.serviceMonitor.enabled ? [{ binding: "metrics" }] : [])],
  };
}

function tunnelListener({ mode, resolver, dnsSvcIpRange, proxyServices }: EdgeRouterSpec["tunneler"]) {
  const options = { mode, resolver, dnsSvcIpRange, services: proxyServices?.toSorted() };
  return { binding: "tunnel", options };
}

const shown = (host: string): string => (host === NODE_ADDRESS ? STAND_IN : host);

function csrOf(resource: RenderedResource, { ordinal, address, hosts }: ConfigInput): Record<string, unknown> {
  const { sans, ...subject } = resource.spec.csr ?? {};
  const services = address === undefined ? [] : serviceNames(resource, ordinal);
  const own = [...hosts.map(shown), ...services, "localhost", "127.0.0.1"];
  const isAddress = (host: string): boolean => isIP(host) !== 0;
  const texts = (value: unknown): string[] => (Array.isArray(value) ? value.map(String).sort() : []);
  const merged = (mine: readonly string[], theirs: unknown): string[] => [...new Set([...mine, ...texts(theirs)])];
  const names = {
    ...sans,
    dns: merged(
      own.filter((host) => !isAddress(host)),
      sans?.dns,
    ),
    ip: merged(own.filter(isAddress), sans?.ip),
  };
  return { ...subject, sans: names };
}

/** What overrides may not touch: the pod would not work, or have another identity. */
function protectedPaths(overrides: Readonly<Record<string, unknown>>, base: Record<string, unknown>): SpecProblem[] {
  const problems: SpecProblem[] = [];
  const refuse = (path: string, why: string): void => {
    problems.push({ path: `spec.config.overrides.${path}`, message: why });
  };
  for (const key of ["v", "identity"]) {
    if (key in overrides) refuse(key, "can't be overridden: the pod is made for it");
  }
  const { ctrl } = overrides;
  if ("ctrl" in overrides && !isMap(ctrl)) refuse("ctrl", "expected an object, which is merged");
  for (const key of ["endpoint", "endpoints"]) {
    if (isMap(ctrl) && key in ctrl) {
      refuse(`ctrl.${key}`, "can't be overridden: set spec.external.ctrlEndpoints of the Network");
    }
  }
  if ("web" in overrides) {
    const [health] = base.web as readonly unknown[];
    const wanted = JSON.stringify(sorted(health));
    const servers = Array.isArray(overrides.web) ? overrides.web : [];
    if (!servers.some((server) => JSON.stringify(sorted(server)) === wanted)) {
      refuse("web", `a list here replaces all servers: it has to hold the one for probes, ${wanted}`);
    }
  }
  return problems;
}

/** Texts that the router would replace from its environment. */
function dollarPaths(document: unknown): SpecProblem[] {
  const problems: SpecProblem[] = [];
  const look = (value: unknown, path: string): void => {
    if (typeof value === "string" && value.includes("$")) {
      problems.push({
        path,
        message: "expected a text without $: the router replaces what follows from its environment",
      });
    } else if (Array.isArray(value)) for (const [index, each] of value.entries()) look(each, `${path}[${index}]`);
    else if (isMap(value))
      for (const [key, each] of Object.entries(value)) look(each, path === "" ? key : `${path}.${key}`);
  };
  look(document, "");
  return problems;
}

/** What the router would refuse or ignore: in a file that no person reads, a key without effect is a mistake, too. */
function findings(document: unknown): SpecProblem[] {
  try {
    return validateRouterConfig(document).warnings.map(problemOf);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.problems.map(problemOf);
  }
}

const problemOf = ({ path, expected, found }: ConfigProblem): SpecProblem => ({
  path,
  message: `expected ${expected}, found ${found}`,
});

/** Where in the spec a path of the file comes from. */
function originOf(path: string, overrides: unknown, spec: EdgeRouterSpec): string {
  const keys = path.split(/[.[\]]+/).filter((key) => key !== "");
  if (isMap(overrides) && keys[0] !== undefined && touches(overrides, keys)) return `spec.config.overrides.${path}`;
  const [section] = keys;
  const isTyped = TYPED.some((name) => name === section && spec[name] !== undefined);
  return isTyped ? `spec.${path}` : path === "" ? "spec" : `the router's file at ${path}`;
}

/** Whether a patch has something to do with the value at these keys. */
function touches(patch: unknown, keys: readonly string[]): boolean {
  let at = patch;
  for (const key of keys) {
    if (!isMap(at)) return true;
    if (!(key in at)) return false;
    at = at[key];
  }
  return true;
}

/** In place of an address that is not known yet. */
const ANYWHERE = { host: "router.invalid", port: 443 };

/** Why no router can be run with this spec, whatever its address will be. */
export function specProblems(resource: RenderedResource, controllers: Controllers): SpecProblem[] {
  const address = resource.spec.exposure.type === "None" ? undefined : ANYWHERE;
  const config = renderRouterConfig(resource, { ordinal: 0, address, hosts: [], controllers });
  return [...podProblems(resource), ...("problems" in config ? config.problems : [])];
}

/** What of the spec would take the place of something that the pod is made for. */
export function podProblems({ spec }: RenderedResource): SpecProblem[] {
  return [...templateProblems(spec), ...portProblems(spec)];
}

function templateProblems(spec: EdgeRouterSpec): SpecProblem[] {
  const pod = spec.template?.spec ?? {};
  const own = { containers: Object.values(CONTAINERS), volumes: Object.values(VOLUMES), mounts: Object.values(PATHS) };
  const taken = (field: string, key: string, names: readonly string[], list: readonly unknown[] | undefined) =>
    (list ?? []).flatMap((each, index): SpecProblem[] => {
      const name = isMap(each) ? String(each[key]) : "";
      if (!names.includes(name)) return [];
      const path = `spec.template.spec.${field}[${index}].${key}`;
      return [{ path, message: `${name} is the operator's own: choose another` }];
    });
  return [
    ...taken("containers", "name", own.containers, pod.containers),
    ...taken("initContainers", "name", own.containers, pod.initContainers),
    ...taken("volumes", "name", own.volumes, pod.volumes),
    ...taken("volumeMounts", "mountPath", own.mounts, pod.volumeMounts),
    ...taken("env", "name", ["HOST_IP"], pod.env),
  ];
}

/** A port can be had once in a pod. */
function portProblems(spec: EdgeRouterSpec): SpecProblem[] {
  if (offeredPorts(spec).length === 0) return [];
  const keyOf = ({ protocol, port }: { readonly protocol: string; readonly port: number }) => `${protocol} ${port}`;
  const taken = new Map([
    [`TCP ${spec.edge.port}`, "the edge listener (spec.edge.port)"],
    [`TCP ${healthPort(spec)}`, "the probes"],
  ]);
  return (spec.tunneler.proxyServices ?? []).flatMap((text, index): SpecProblem[] => {
    const key = keyOf(offeredPort(text));
    const holder = taken.get(key);
    if (holder === undefined) taken.set(key, text);
    const path = `spec.tunneler.proxyServices[${index}]`;
    return holder === undefined ? [] : [{ path, message: `port ${key} is that of ${holder}: choose another` }];
  });
}
