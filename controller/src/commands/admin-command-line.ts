import { parseArgs } from "node:util";
import { UsageError } from "./command.ts";

/** `sallyport-controller admin reset …` */
export interface AdminCommand {
  readonly command: "admin";
  readonly action: "reset";
  readonly file: string;
  readonly identity?: string | undefined;
  readonly username?: string | undefined;
  readonly isGenerated: boolean;
  readonly hasOwnPolicy: boolean;
}

export const ADMIN_USAGE = `  sallyport-controller admin reset FILE [--identity NAME] [--username NAME] [--generate] [--own-policy]
      Restores access for an administrator: sets a new password, enables the identity, removes MFA, ends API sessions.
      The controller may run. The command asks for the password, or reads one line if standard input is not a terminal.
        --identity NAME     id, name or user name of the administrator (default: the default one)
        --username NAME     a new user name
        --generate          generate a password and print it once
        --own-policy        assign a separate auth policy that only requires the password
`;

/** @throws UsageError */
export function parseAdminCommand(args: readonly string[]): AdminCommand {
  const [action, ...rest] = args;
  if (action !== "reset") throw new UsageError(`admin needs an action: expected reset, found ${action ?? "nothing"}`);
  const { values, positionals } = optionsOf(rest);
  const [file, ...more] = positionals;
  if (file === undefined || more.length > 0) {
    throw new UsageError(
      "admin reset needs exactly one configuration file: sallyport-controller admin reset controller.yml",
    );
  }
  const { identity, username, generate = false, "own-policy": hasOwnPolicy = false } = values;
  if (identity === "") throw new UsageError("--identity needs an id, a name or a user name");
  const length = username === undefined ? 4 : [...username].length;
  if (length < 4 || length > 100) throw new UsageError(`--username must have 4 to 100 characters, it has ${length}`);
  return {
    command: "admin",
    action,
    file,
    isGenerated: generate,
    hasOwnPolicy,
    identity,
    username,
  };
}

function optionsOf(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        identity: { type: "string" },
        username: { type: "string" },
        generate: { type: "boolean" },
        "own-policy": { type: "boolean" },
      },
      allowPositionals: true,
      strict: true,
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}
