import type { RouterConfig } from "@sallyport/router-config";
import { type Identity, type IdentityConfig, type Logger, loadIdentity, pemSource } from "@sallyport/wire";

/** The router's identity as it is now; a reload replaces it for everything that is made from then on. */
export class RouterIdentity {
  readonly #config: IdentityConfig;
  readonly #baseDir: string;
  readonly #listeners = new Set<(identity: Identity) => void>();
  readonly #log: Logger;
  #current: Identity;

  private constructor(current: Identity, config: IdentityConfig, baseDir: string, log: Logger) {
    this.#current = current;
    this.#config = config;
    this.#baseDir = baseDir;
    this.#log = log;
  }

  /** @throws IdentityError naming the key that cannot be used */
  static async load(config: RouterConfig["identity"], baseDir: string, log: Logger): Promise<RouterIdentity> {
    return new RouterIdentity(await loadIdentity(config, baseDir), config, baseDir, log);
  }

  get current(): Identity {
    return this.#current;
  }

  /** The files of both certificates; none when one of them is inline. */
  get files(): { cert: string; serverCert: string } | undefined {
    const cert = pemSource(this.#config.cert, this.#baseDir);
    const serverCert = pemSource(this.#config.server_cert ?? this.#config.cert, this.#baseDir);
    if (cert.kind !== "file" || serverCert.kind !== "file") return undefined;
    return { cert: cert.path, serverCert: serverCert.path };
  }

  onChange(listener: (identity: Identity) => void): void {
    this.#listeners.add(listener);
  }

  /** Reads the files again; when that fails the identity stays as it is and the error is thrown. */
  async reload(): Promise<void> {
    const next = await loadIdentity(this.#config, this.#baseDir);
    this.#current = next;
    this.#log.info({ validTo: next.leaf.validTo }, "the identity was loaded again");
    for (const listener of this.#listeners) listener(next);
  }
}
