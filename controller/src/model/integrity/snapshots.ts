import { dirname, isAbsolute, join, normalize, relative, resolve, sep } from "node:path";
import { apiError, fieldError } from "@sallyport/api";
import { makeFolder } from "@sallyport/program/make-folder";
import { BackupError } from "../../store/backup/backup-file.ts";
import { writeBackup } from "../../store/backup/write-backup.ts";
import type { ModelContext } from "../context.ts";

/** How far apart snapshots are made. */
const PAUSE_MS = 60_000;
const NAME = "sallyport";
const MAX_PATH_CHARACTERS = 512;

/** Backups that administrators ask for over the API. They lie in one folder, whatever path is asked for. */
export class Snapshots {
  readonly #ctx: ModelContext;
  #last = Number.NEGATIVE_INFINITY;
  #running: Promise<unknown> | undefined;
  readonly #stopping = new AbortController();

  constructor(ctx: ModelContext) {
    this.#ctx = ctx;
  }

  /**
   * Writes a backup (`store/backup`) and answers where it lies.
   * @param path a name below the folder of snapshots, with the placeholders `__DB_DIR__` (that folder), `__DB_FILE__`, `__DATE__` (yyyymmdd), `__TIME__`
   * (hhmmss) and `__RAFT_INDEX__` (always 0); empty: `sallyport-<date>-<time>`
   * @throws ApiError 429 `RATE_LIMITED` within a minute of the one before, 400 for a path that leads elsewhere
   */
  async create(path = ""): Promise<string> {
    const file = this.#place(path);
    const now = this.#ctx.now().getTime();
    const wait = this.#last + PAUSE_MS - now;
    if (this.#running || wait > 0) {
      const seconds = Math.max(1, Math.ceil(wait / 1_000));
      throw apiError("RATE_LIMITED", undefined, { headers: { "retry-after": String(seconds) } });
    }
    this.#last = now;
    const made = this.#write(file);
    this.#running = made.catch(() => undefined);
    try {
      const { rows, bytes } = await made;
      this.#ctx.log.info({ file, rows, bytes }, "database snapshot written");
      return file;
    } catch (error) {
      // Nothing was made that the next one would have to wait for.
      this.#last = Number.NEGATIVE_INFINITY;
      if (error instanceof BackupError && error.code === "EXISTS")
        throw fieldError("path", "there is such a file", path);
      throw error;
    } finally {
      this.#running = undefined;
    }
  }

  /** Ends the one that is under way. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error("the controller was stopped"));
    await this.#running;
  }

  async #write(file: string): ReturnType<typeof writeBackup> {
    await makeFolder(dirname(file), 0o700);
    const { store, log } = this.#ctx;
    return writeBackup({ connection: store.connection, file, signal: this.#stopping.signal, log });
  }

  #place(path: string): string {
    const folder = resolve(this.#ctx.settings.snapshotFolder);
    const [date = "", time = ""] = this.#ctx
      .now()
      .toISOString()
      .replaceAll(/[-:]|\..*/g, "")
      .split("T");
    const refuse = (reason: string) => fieldError("path", reason, path);
    const values: Readonly<Record<string, string>> = {
      __DB_DIR__: folder,
      __DB_FILE__: NAME,
      __DATE__: date,
      __TIME__: time,
      __RAFT_INDEX__: "0",
    };
    const name = path.trim() === "" ? "__DB_FILE__-__DATE__-__TIME__" : path;
    if (name.length > MAX_PATH_CHARACTERS || /[\p{Cc}]/u.test(name))
      throw refuse(`must be up to ${MAX_PATH_CHARACTERS} printable characters`);
    const filled = name.replaceAll(/__(?:DB_DIR|DB_FILE|DATE|TIME|RAFT_INDEX)__/g, (found) => values[found] ?? found);
    const file = isAbsolute(filled) ? normalize(filled) : join(folder, filled);
    const below = relative(folder, file);
    if (below === "" || below === ".." || below.startsWith(`..${sep}`) || isAbsolute(below) || file.endsWith(sep)) {
      throw refuse("must name a file in the folder of snapshots");
    }
    return file;
  }
}
