/** The networks that the user is logged in to: one file each below the folder of settings. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { CommandError, ExitStatus, UsageError, wordHint } from "../errors.ts";
import { isForeign, readOwn, removeOwn, settingsFolder, writeOwn } from "./own-files.ts";

/** How a login proves who the user is. Files are read again when a session has ended. */
export type LoginWay =
  /** Without a file, only the user knows the password. */
  | { readonly method: "password"; readonly username: string; readonly passwordFile?: string }
  | { readonly method: "certificate"; readonly certFile: string; readonly keyFile: string }
  | { readonly method: "identity"; readonly file: string }
  /** A token of a provider that the network trusts. Without a file it counted once. */
  | { readonly method: "token"; readonly file?: string };

export interface SavedSession {
  readonly token: string;
  /** Name of the identity. */
  readonly identity: string;
}

export interface SavedNetwork {
  /** `https://host:port` */
  readonly controller: string;
  /** The network's other controllers, as the login was told: called while the first is away. */
  readonly others?: readonly string[];
  /** PEM of the authorities to trust; the system's when absent. */
  readonly ca?: string;
  readonly login: LoginWay;
  readonly session?: SavedSession;
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
const ENDING = ".json";

/** @throws UsageError for a text that cannot be the name of a network */
export function checkedName(name: string): string {
  if (NAME.test(name)) return name;
  throw new UsageError(
    `'${name}' cannot be the name of a network: expected at most 63 letters, digits, '.', '_' and '-', a letter or digit first`,
  );
}

/** The saved networks of a user. */
export class NetworkStore {
  readonly #env: Readonly<Record<string, string | undefined>>;

  constructor(env: Readonly<Record<string, string | undefined>>) {
    this.#env = env;
  }

  async names(): Promise<string[]> {
    const files = await readdir(this.#folder()).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT" || error.code === "ENOTDIR") return [];
      throw new CommandError(`cannot read the folder ${this.#folder()}: ${error.message}`);
    });
    return files
      .filter((file) => file.endsWith(ENDING))
      .map((file) => file.slice(0, -ENDING.length))
      .sort();
  }

  /** The network that commands use unless told otherwise. */
  async current(): Promise<string | undefined> {
    return (await readOwn(this.#currentFile()))?.trim() || undefined;
  }

  async use(name: string): Promise<void> {
    await this.read(name);
    await writeOwn(this.#currentFile(), `${name}\n`);
  }

  /**
   * The name of the network to use: the one that the user names, of SALLYPORT_NETWORK, or the current one.
   * @throws CommandError when there is none
   */
  async chosen(named: string | undefined): Promise<string> {
    const name = named ?? (this.#env.SALLYPORT_NETWORK || undefined) ?? (await this.current());
    if (name !== undefined) return checkedName(name);
    const names = await this.names();
    const hint =
      names.length === 0
        ? "log in with 'sallyport login https://HOST:PORT'"
        : `choose one of ${names.join(", ")} with 'sallyport networks use NAME'`;
    throw new CommandError(`no network is chosen: ${hint}`, ExitStatus.LoggedOut);
  }

  /** @throws CommandError for a network that is not there, or a file that cannot be used */
  async read(name: string): Promise<SavedNetwork> {
    const file = this.fileOf(name);
    const text = await readOwn(file);
    if (text === undefined) {
      const names = await this.names();
      const otherwise =
        names.length > 0 ? `there are ${names.join(", ")}` : "log in with 'sallyport login https://HOST:PORT'";
      const hint = wordHint(name, names, otherwise);
      throw new CommandError(`no network '${name}' is saved: ${hint}`, ExitStatus.LoggedOut);
    }
    const network = savedNetwork(text);
    if (network !== undefined) return network;
    throw new CommandError(`${file} holds no login that can be used: log in again`, ExitStatus.LoggedOut);
  }

  /** Whether other users can read the login of a network. */
  async isForeign(name: string): Promise<boolean> {
    return await isForeign(this.fileOf(name));
  }

  async write(name: string, network: SavedNetwork): Promise<void> {
    await writeOwn(this.fileOf(checkedName(name)), `${JSON.stringify(network, undefined, 2)}\n`);
  }

  /** Forgets a network; the current one is then none. */
  async remove(name: string): Promise<void> {
    await removeOwn(this.fileOf(name));
    if ((await this.current()) === name) await removeOwn(this.#currentFile());
  }

  fileOf(name: string): string {
    return join(this.#folder(), `${checkedName(name)}${ENDING}`);
  }

  #folder(): string {
    return join(settingsFolder(this.#env), "networks");
  }

  #currentFile(): string {
    return join(settingsFolder(this.#env), "current-network");
  }
}

/** What the text of a file says; undefined when it is something else. */
function savedNetwork(text: string): SavedNetwork | undefined {
  let value: Partial<Record<keyof SavedNetwork, unknown>>;
  try {
    value = JSON.parse(text) as typeof value;
  } catch {
    return undefined;
  }
  const { controller, others, ca, login, session } = value ?? {};
  if (!isHttps(controller) || (ca !== undefined && typeof ca !== "string") || !isLoginWay(login)) return undefined;
  const { token, identity } = (session ?? {}) as Record<string, unknown>;
  const isSession = typeof token === "string" && typeof identity === "string";
  const usable = Array.isArray(others) ? others.filter(isHttps) : [];
  return {
    controller,
    login,
    ...(usable.length > 0 && { others: usable }),
    ...(ca !== undefined && { ca }),
    ...(isSession && { session: { token, identity } }),
  };
}

function isHttps(value: unknown): value is string {
  return typeof value === "string" && URL.parse(value)?.protocol === "https:";
}

function isLoginWay(value: unknown): value is LoginWay {
  if (typeof value !== "object" || value === null) return false;
  const { method, username, passwordFile, certFile, keyFile, file } = value as Record<string, unknown>;
  switch (method) {
    case "password":
      return typeof username === "string" && (passwordFile === undefined || typeof passwordFile === "string");
    case "certificate":
      return typeof certFile === "string" && typeof keyFile === "string";
    case "identity":
      return typeof file === "string";
    case "token":
      return file === undefined || typeof file === "string";
    default:
      return false;
  }
}
