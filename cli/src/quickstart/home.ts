/** Where networks and identities of this machine are kept. */
import { join } from "node:path";
import { CommandError } from "../errors.ts";

/** A folder of the user's data, `$XDG_DATA_HOME/sallyport/NAME`. @throws CommandError when the environment names none */
export function dataFolder(name: string, { XDG_DATA_HOME: shared, HOME: home }: NodeJS.ProcessEnv): string {
  if (shared?.startsWith("/")) return join(shared, "sallyport", name);
  if (home) return join(home, ".local", "share", "sallyport", name);
  throw new CommandError("there is no folder for the network's files: HOME is not set; choose one with --dir DIR");
}
