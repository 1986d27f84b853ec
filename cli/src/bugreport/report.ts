/** What a report holds. */
import { X509Certificate } from "node:crypto";
import { arch, availableParallelism, freemem, platform, release, totalmem, version } from "node:os";
import { basename } from "node:path";
import { errorText } from "@sallyport/async";
import type { CommandContext } from "../context.ts";
import { type OpenNetwork, withNetwork } from "../network/open-network.ts";
import { NetworkStore, type SavedNetwork } from "../network/saved-network.ts";
import { inspect } from "../status/inspect.ts";
import { readStatus } from "../status/read-status.ts";
import { statusText } from "../status/status-text.ts";
import { endOfFile, type GivenFile, journal } from "./given-files.ts";
import { Redactor } from "./redact.ts";

export interface ReportOptions {
  readonly network: string | undefined;
  readonly configs: readonly string[];
  readonly logs: readonly string[];
  /** Ask the journal of systemd. */
  readonly hasJournal: boolean;
  /** Of this program. */
  readonly version: string;
}

export interface ReportPart {
  /** In the archive. */
  readonly path: string;
  readonly text: string;
  readonly what: string;
}

/** A part before its secrets are taken out: a text, or what becomes JSON. */
interface Gathered {
  readonly path: string;
  readonly text?: string;
  readonly value?: unknown;
  readonly what: string;
}

/** What controllers and routers tell about themselves, without secrets. */
const INSPECTIONS = [
  ...["process", "stackdump", "config", "connected-routers", "routers-last-seen", "links", "terminator-costs"],
  ...["router-messaging", "identity-connection-statuses", "failed-dials", "router-circuits", "sdk-terminators"],
];

/** @throws CommandError for a file that cannot be read */
export async function reportParts(options: ReportOptions, context: CommandContext): Promise<readonly ReportPart[]> {
  const redactor = new Redactor();
  // First, because their secrets are then known when everything else is looked through.
  const networks = await savedNetworks(redactor, context);
  const configs: Gathered[] = [];
  for (const [index, name] of options.configs.entries()) configs.push(await configPart(name, index, redactor));
  const parts: Gathered[] = [
    json("environment.json", environment(options.version, context), "this machine and the versions of its programs"),
    json("networks.json", networks, "the networks that you are logged in to, without their sessions"),
    ...(await networkParts(options, context)),
    ...configs,
  ];
  for (const [index, name] of options.logs.entries()) {
    parts.push(logPart(`logs/${nameInArchive(index, name)}`, await endOfFile(name), `the end of ${name}`));
  }
  for (const scope of options.hasJournal ? (["system", "user"] as const) : []) {
    const found = await journal(scope, context.signal);
    if (found !== undefined)
      parts.push(logPart(`logs/journal-${scope}.txt`, found, `${scope} journal of sallyport units`));
  }
  const without = ({ path, text, value, what }: Gathered): ReportPart => {
    if (value === undefined) return { path, what, text: redactor.text(text ?? "") };
    return { path, what, text: `${JSON.stringify(redactor.value(value), undefined, 2)}\n` };
  };
  // Twice: the first time they are read, a secret may be met that an earlier part holds as well.
  parts.forEach(without);
  return parts.map(without);
}

/** Of any name: names of files may have control characters, too. */
function nameInArchive(index: number, file: string): string {
  return `${index + 1}-${basename(file).replaceAll(/[^\w.-]/g, "_")}`;
}

async function configPart(name: string, index: number, redactor: Redactor): Promise<Gathered> {
  const path = `config/${nameInArchive(index, name)}`;
  const { text, isCut } = await endOfFile(name);
  if (isCut) return { path, text: "left out: too long\n", what: `${name}: left out, because it is too long` };
  try {
    return { path, text: await redactor.configuration(text), what: name };
  } catch (error) {
    const [reason = ""] = errorText(error).split("\n", 1);
    const what = `${name}: left out, because it can be read as neither YAML nor JSON`;
    return { path, text: `left out: ${reason}\n`, what };
  }
}

function logPart(path: string, { text, isCut }: GivenFile, what: string): Gathered {
  return { path, text: isCut ? `[the beginning is left out]\n${text}` : text, what };
}

/** What is saved, without what proves who the user is. */
async function savedNetworks(redactor: Redactor, { env }: CommandContext): Promise<unknown> {
  const store = new NetworkStore(env);
  try {
    const current = await store.current();
    const names = await store.names();
    const networks = await Promise.all(
      names.map(async (name) => {
        try {
          const saved = await store.read(name);
          if (saved.session !== undefined) redactor.know(saved.session.token);
          return { name, isCurrent: name === current, ...withoutSession(saved) };
        } catch (error) {
          return { name, error: errorText(error) };
        }
      }),
    );
    return { networks };
  } catch (error) {
    return { error: errorText(error) };
  }
}

function withoutSession({ controller, ca, login, session }: SavedNetwork): object {
  return { controller, login: login.method, isLoggedIn: session !== undefined, authorities: fingerprintsOf(ca) };
}

function fingerprintsOf(pem = ""): readonly string[] {
  const found = pem.match(/-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g) ?? [];
  return found.map((each) => {
    try {
      return new X509Certificate(each).fingerprint256;
    } catch {
      return "unreadable";
    }
  });
}

/** What the controller tells; where there is no network or no session, why not. */
async function networkParts({ network }: ReportOptions, context: CommandContext): Promise<Gathered[]> {
  try {
    return await withNetwork(network, context, async (open) => await askNetwork(open, context));
  } catch (error) {
    context.signal.throwIfAborted();
    return [{ path: "status.txt", text: `${errorText(error)}\n`, what: "why the network could not be asked" }];
  }
}

async function askNetwork(open: OpenNetwork, { signal }: CommandContext): Promise<Gathered[]> {
  const status = await readStatus(open, signal);
  const text = await statusText(status, { isWide: true, width: undefined, emphasis: (line) => line, now: Date.now() });
  const inspected = await inspect(".*", INSPECTIONS, open.caller).catch((error: unknown) => {
    signal.throwIfAborted();
    return { error: errorText(error) };
  });
  return [
    { path: "status.txt", text, what: "what 'sallyport status -o wide' prints" },
    json("status.json", status, "the same as a document"),
    json("inspections.json", inspected, "the inner state of controller and routers"),
  ];
}

/** No values of variables: they may be secrets. */
function environment(own: string, { env }: CommandContext): object {
  const names = Object.keys(env).filter((name) => /^(SALLYPORT_|ZITI_|NODE_|PG)|_proxy$/i.test(name));
  return {
    sallyport: own,
    node: process.version,
    openssl: process.versions.openssl,
    system: `${platform()} ${release()} ${arch()}`,
    systemVersion: version(),
    processors: availableParallelism(),
    memoryBytes: { total: totalmem(), free: freemem() },
    at: new Date().toISOString(),
    timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    variablesThatAreSet: names.sort(),
  };
}

function json(path: string, value: unknown, what: string): Gathered {
  return { path, value, what };
}
