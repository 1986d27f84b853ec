import type { Command } from "commander";
import type { CommandContext } from "../context.ts";

/** Adds arguments, options and the action to a command. */
export type Configure = (command: Command, context: CommandContext, words: readonly string[]) => void | Promise<void>;
