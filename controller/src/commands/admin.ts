import { readControllerConfigFile } from "@sallyport/controller-config";
import { AdminResetError, resetAdministrator } from "../auth/admin-reset.ts";
import type { AdminCommand, CommandContext } from "./command-line.ts";
import { openBeside } from "./open-beside.ts";
import { askPassword, generatedPassword } from "./password.ts";

export interface AdminContext extends CommandContext {
  /** Where the password comes from. */
  readonly input: NodeJS.ReadableStream;
  /** Shows the user what to type. */
  readonly prompt: (text: string) => void;
}

/**
 * `sallyport-controller admin reset`: lets an administrator in again. A running controller applies it at once; its count of wrong passwords, which is in
 * memory, fades within a minute or two.
 * @throws AdminResetError, NoPasswordError, ConfigError, StoreError
 */
export async function adminCommand(
  command: AdminCommand,
  { env, input, prompt, say, log }: AdminContext,
): Promise<void> {
  const read = await readControllerConfigFile(command.file, env);
  // The suffix has a character of every kind that a policy may ask for.
  const password = command.isGenerated ? `${generatedPassword()}-aA2` : await askPassword(input, prompt);
  const length = [...password].length;
  if (length < 5 || length > 100) {
    throw new AdminResetError(`a password must have 5 to 100 characters, this one has ${length}`);
  }
  const store = await openBeside(read, command.file, log);
  try {
    const done = await resetAdministrator(store, { ...command, password });
    say(`${done.name}: user name ${done.username}, with the new password`);
    if (command.isGenerated) say(`password: ${password}   (shown this once)`);
    if (done.wasDisabled) say("it was disabled, and is enabled again");
    if (done.hadMfa) say("its MFA enrollment was removed");
    say(`API sessions ended: ${done.endedSessions}`);
    for (const obstacle of done.obstacles) say(`ATTENTION: ${obstacle}: use --own-policy to lift that for it alone`);
  } finally {
    await store.close();
  }
}
