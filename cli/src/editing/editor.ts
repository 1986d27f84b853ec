/** The user's editor, and the file that it works on. */
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CommandContext } from "../context.ts";
import { CommandError, UsageError } from "../errors.ts";

/** The command line of the user's editor. @throws UsageError where none is named and there is no terminal for the usual one */
export function editorOf(context: CommandContext): string {
  const named = context.env.VISUAL || context.env.EDITOR;
  if (named) return named;
  if (context.stdin.isTTY && context.stdout.isTTY) return "vi";
  throw new UsageError(
    "there is no terminal for an editor: change fields with 'sallyport patch', or set EDITOR to a program that changes a file",
  );
}

/** A text in a folder of its own, which only its owner can read. */
export class EditedFile {
  readonly path: string;
  readonly #folder: string;

  private constructor(folder: string, name: string) {
    this.#folder = folder;
    this.path = join(folder, name);
  }

  /** @param name of the file, for the editor's colours */
  static async make(name: string): Promise<EditedFile> {
    return new EditedFile(await mkdtemp(join(tmpdir(), "sallyport-edit-")), name.replaceAll(/[^\w.-]/g, "_"));
  }

  /** Shows the text to the user and answers what it is afterwards. @throws CommandError when the editor fails */
  async edit(text: string, context: CommandContext): Promise<string> {
    const editor = editorOf(context);
    await writeFile(this.path, text, { mode: 0o600 });
    // As Git does: the setting is a command line, such as `code --wait`.
    const child = spawn("/bin/sh", ["-c", `${editor} "$1"`, "sh", this.path], {
      stdio: "inherit",
      env: { ...context.env },
    });
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once("exit", resolve);
      child.once("error", reject);
    });
    if (code !== 0 && (await readFile(this.path, "utf8")) === text) await this.remove();
    if (code !== 0)
      throw new CommandError(`the editor '${editor}' ended with ${code ?? "a signal"}: set EDITOR to one that works`);
    return await readFile(this.path, "utf8");
  }

  /** Keeps a text for the user. */
  async keep(text: string): Promise<void> {
    await writeFile(this.path, text, { mode: 0o600 });
  }

  async remove(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }
}
