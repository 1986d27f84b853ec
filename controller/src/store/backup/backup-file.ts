/**
 * The file of a backup: gzip of records. A record is a line of JSON; the bytes of a table follow lines that give their number.
 * The first line is the manifest, the last one the seal with a checksum of everything before (docs/controller/backup.md, "The file").
 */
import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { createGunzip } from "node:zlib";
import { z } from "zod";

export const FORMAT = "sallyport-backup";
export const FORMAT_VERSION = 1;

const manifestSchema = z.object({
  format: z.literal(FORMAT),
  version: z.number(),
  /** When the snapshot of the database was taken. */
  at: z.string(),
  /** Version of the PostgreSQL that it was taken from. */
  server: z.string(),
  /** The migrations that the database had, in order. */
  migrations: z.array(z.string()),
  tables: z.array(z.object({ name: z.string(), columns: z.array(z.string()) })),
});

export type Manifest = z.infer<typeof manifestSchema>;

const recordSchema = z.union([
  z.object({ table: z.string() }),
  z.object({ bytes: z.int().min(1).max(16_777_216) }),
  z.object({ end: z.string(), rows: z.number() }),
  z.object({ seal: z.string() }),
]);

/** What a reader is given, in the order of the file. */
export type BackupPart =
  | { readonly manifest: Manifest }
  | { readonly table: string }
  | { readonly bytes: Buffer }
  | { readonly end: string; readonly rows: number };

/** Turns parts into the bytes of a file, before compression. */
export class BackupEncoder {
  readonly #hash: Hash = createHash("sha256");

  record(record: Manifest | { readonly table: string } | { readonly end: string; readonly rows: number }): Buffer {
    return this.#noted(line(record));
  }

  bytes(bytes: Buffer): Buffer {
    return this.#noted(Buffer.concat([line({ bytes: bytes.byteLength }), bytes]));
  }

  /** The last record. */
  seal(): Buffer {
    return line({ seal: this.#hash.digest("hex") });
  }

  #noted(bytes: Buffer): Buffer {
    this.#hash.update(bytes);
    return bytes;
  }
}

function line(value: object): Buffer {
  return Buffer.from(`${JSON.stringify(value)}\n`);
}

const MAX_LINE_BYTES = 1_048_576;

/**
 * The parts of a file in order, with bounded memory. @throws BackupError when it is no backup, of a newer format, cut short, or changed: the checksum is
 * compared at the end, so a reader that acts on the parts goes through the file once before.
 */
export async function* readBackupFile(file: string): AsyncGenerator<BackupPart> {
  const damaged = (what: string, cause?: unknown) =>
    new BackupError(`${file} is damaged: ${what}. Use another backup`, cause === undefined ? undefined : { cause });
  const source = createReadStream(file);
  const unzipped = source.pipe(createGunzip());
  source.on("error", (error) => unzipped.destroy(error));
  const hash = createHash("sha256");
  let held: Buffer = Buffer.alloc(0);
  let wanted = 0;
  let manifest: Manifest | undefined;
  /** The table whose bytes come. */
  let table: string | undefined;
  let isSealed = false;
  try {
    for await (const chunk of unzipped as AsyncIterable<Buffer>) {
      held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
      for (;;) {
        if (wanted > 0) {
          if (held.length < wanted) break;
          const bytes = held.subarray(0, wanted);
          held = held.subarray(wanted);
          wanted = 0;
          hash.update(bytes);
          yield { bytes };
          continue;
        }
        const end = held.indexOf(10);
        if (end < 0) {
          if (held.length > MAX_LINE_BYTES) throw damaged("a record is too long");
          break;
        }
        if (isSealed) throw damaged("something follows its end");
        const record = held.subarray(0, end + 1);
        held = held.subarray(end + 1);
        const value = parsed(record);
        if (manifest === undefined) {
          manifest = manifestOf(value, file);
          hash.update(record);
          yield { manifest };
          continue;
        }
        const known = recordSchema.safeParse(value);
        if (!known.success) throw damaged("a record cannot be read");
        if (!fits(known.data, table)) throw damaged("its records are not in order");
        if ("seal" in known.data) {
          if (known.data.seal !== hash.digest("hex")) throw damaged("its checksum does not match");
          isSealed = true;
          continue;
        }
        hash.update(record);
        if ("bytes" in known.data) {
          wanted = known.data.bytes;
          continue;
        }
        table = "table" in known.data ? known.data.table : undefined;
        yield known.data;
      }
    }
  } catch (error) {
    if (error instanceof BackupError) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "Z_DATA_ERROR" || code === "Z_BUF_ERROR") {
      if (manifest === undefined) throw new BackupError(`${file} is not a backup of Sallyport`, { cause: error });
      throw damaged(message, error);
    }
    throw new BackupError(`${file} cannot be read: ${message}`, { cause: error });
  } finally {
    source.destroy();
    unzipped.destroy();
  }
  if (manifest === undefined) throw new BackupError(`${file} is not a backup of Sallyport`);
  if (!isSealed || held.length > 0) throw damaged("it ends too early");
}

/** A table begins, its bytes follow, it ends; then the next one, or the seal. */
function fits(record: z.infer<typeof recordSchema>, table: string | undefined): boolean {
  if ("table" in record || "seal" in record) return table === undefined;
  return table !== undefined && (!("end" in record) || record.end === table);
}

function parsed(record: Buffer): unknown {
  try {
    return JSON.parse(record.toString());
  } catch {
    return undefined;
  }
}

function manifestOf(value: unknown, file: string): Manifest {
  const found = manifestSchema.safeParse(value);
  if (!found.success) throw new BackupError(`${file} is not a backup of Sallyport`);
  if (found.data.version > FORMAT_VERSION) {
    throw new BackupError(
      `${file} has format ${found.data.version} of backups, this program knows them up to ${FORMAT_VERSION}: restore it with the version that made it, or a newer one`,
    );
  }
  return found.data;
}

/** A backup cannot be made, read or restored; the message says why and what to do. */
export class BackupError extends Error {
  override name = "BackupError";
  /** Where the reason is of use to programs. */
  readonly code: "EXISTS" | undefined;

  constructor(message: string, options?: ErrorOptions & { readonly code?: "EXISTS" }) {
    super(message, options);
    this.code = options?.code;
  }
}
