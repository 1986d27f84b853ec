import { watch } from "node:fs";
import { stat } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { Listeners } from "@sallyport/async";
import type { RouterConfig } from "@sallyport/router-config";
import { type Identity, type IdentityConfig, type Logger, loadIdentity, pemSource } from "@sallyport/wire";

/** Files that belong together are written one after the other. */
const SETTLE_MS = 1_000;
/** How often the files are read where the system reports no changes, as on some network file systems. */
const LOOK_MS = 30_000;

/** Files that a renewal writes. */
export interface IdentityFiles {
  readonly cert: string;
  readonly serverCert: string;
  /** The trust anchors; absent when they are inline. */
  readonly ca?: string;
}

/** The router's identity as it is now; a reload replaces it for everything that is made from then on. */
export class RouterIdentity {
  readonly #config: IdentityConfig;
  readonly #baseDir: string;
  readonly #listeners = new Listeners<[identity: Identity]>();
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

  /** Where the certificates are; none when one of the two is inline. */
  get files(): IdentityFiles | undefined {
    const cert = pemSource(this.#config.cert, this.#baseDir);
    const serverCert = pemSource(this.#config.server_cert ?? this.#config.cert, this.#baseDir);
    if (cert.kind !== "file" || serverCert.kind !== "file") return undefined;
    const ca = this.#config.ca ? pemSource(this.#config.ca, this.#baseDir) : undefined;
    return { cert: cert.path, serverCert: serverCert.path, ...(ca?.kind === "file" ? { ca: ca.path } : {}) };
  }

  onChange(listener: (identity: Identity) => void): void {
    this.#listeners.add(listener);
  }

  /**
   * Reads the files again a second after one of them has changed (docs/protocol/identity.md, "Configuration"). When they
   * make no identity, perhaps because only some of them are written yet, the old one stays until the next change.
   * Changes of which the system says nothing are found within `lookMs`, 30 s.
   * @returns stops watching
   */
  watch({ lookMs = LOOK_MS }: { lookMs?: number } = {}): () => void {
    const folders = new Map<string, Set<string>>();
    for (const file of this.#paths()) {
      const names = folders.get(dirname(file)) ?? new Set();
      folders.set(dirname(file), names.add(basename(file)));
    }
    let timer: NodeJS.Timeout | undefined;
    const soon = (): void => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        this.reload().catch((error: unknown) =>
          this.#log.warn({ err: error }, "certificate files changed and cannot be used; the identity stays as it is"),
        );
      }, SETTLE_MS);
      timer.unref();
    };
    const watchers = [...folders].map(([folder, names]) => {
      const unwatched = (error: unknown) =>
        this.#log.warn({ folder, err: error }, "changes of certificate files are not noticed");
      try {
        // Kubernetes exchanges mounted files behind a link whose name begins with two dots.
        return watch(folder, { persistent: false }, (_event, name) => {
          if (name === null || names.has(name) || name.startsWith("..")) soon();
        }).on("error", unwatched);
      } catch (error) {
        unwatched(error);
        return undefined;
      }
    });
    const stopLooking = this.#look(lookMs, soon);
    return () => {
      clearTimeout(timer);
      stopLooking();
      for (const watcher of watchers) watcher?.close();
    };
  }

  /** Calls `changed` when a file is another than at the last look. */
  #look(everyMs: number, changed: () => void): () => void {
    const look = (): Promise<string[]> => Promise.all(this.#paths().map(stampOf));
    let last = look();
    const timer = setInterval(() => {
      const before = last;
      last = look();
      void Promise.all([before, last]).then(([then, now]) => {
        if (then.join() !== now.join()) changed();
      });
    }, everyMs);
    timer.unref();
    return () => clearInterval(timer);
  }

  /** Reads the files again; when that fails the identity stays as it is and the error is thrown. */
  async reload(): Promise<void> {
    const next = await loadIdentity(this.#config, this.#baseDir);
    if (isDeepStrictEqual(partsOf(next), partsOf(this.#current))) return;
    this.#current = next;
    this.#log.info({ validTo: next.leaf.validTo }, "the identity was loaded again");
    this.#listeners.emit(next);
  }

  #paths(): string[] {
    const { cert, key, server_cert, server_key, ca, alt_server_certs } = this.#config;
    const others = (alt_server_certs ?? []).flatMap((entry) => [entry.server_cert, entry.server_key]);
    return [cert, key, server_cert, server_key, ca, ...others].flatMap((value) => {
      if (value === undefined || value === null || value === "") return [];
      const source = pemSource(value, this.#baseDir);
      return source.kind === "file" ? [source.path] : [];
    });
  }
}

/** Distinguishes the states of a file; links are followed. */
async function stampOf(file: string): Promise<string> {
  try {
    const { ino, size, mtimeMs, ctimeMs } = await stat(file);
    return `${ino}/${size}/${mtimeMs}/${ctimeMs}`;
  } catch (error) {
    // Gone for the moment, while it is exchanged: another state, too.
    return error instanceof Error && "code" in error ? String(error.code) : "unreadable";
  }
}

function partsOf({ certPem, keyPem, serverCertPem, serverKeyPem, altServerCerts, caPem }: Identity) {
  return { certPem, keyPem, serverCertPem, serverKeyPem, altServerCerts, caPem };
}
