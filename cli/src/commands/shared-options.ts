/** Options that several commands have. */
import { resolve } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { UsageError } from "../errors.ts";
import { FORMAT_HELP, type Format, formatOf } from "../output/format.ts";

export interface NetworkOption {
  readonly network?: string;
}

export function withNetworkOption(command: Command): Command {
  return command.option("-n, --network <name>", "network to use; the current one when absent");
}

/** @param standard what is printed when the user does not say */
export function withOutputOption(command: Command, standard: string): Command {
  const option = new Option("-o, --output <format>", FORMAT_HELP)
    .argParser((text) => formatOf(text))
    .default(formatOf(standard), standard);
  return command.addOption(option);
}

export interface OutputOption {
  readonly output: Format;
}

/** @throws InvalidArgumentError for anything else than a whole number from 1 */
export function positiveNumber(text: string): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value > 0 && Number.isSafeInteger(value)) return value;
  throw new InvalidArgumentError("Expected a whole number from 1.");
}

/** The same up to a bound. @throws InvalidArgumentError */
export function numberUpTo(max: number): (text: string) => number {
  return (text) => {
    const value = positiveNumber(text);
    if (value <= max) return value;
    throw new InvalidArgumentError(`Expected a whole number from 1 to ${max}.`);
  };
}

/** @throws UsageError where an option that counts once was given twice */
export function once(name: string): (value: string, before: string | undefined) => string {
  return (value, before) => {
    if (before !== undefined) throw new UsageError(`--${name} was given twice`);
    return value;
  };
}

/** A folder of an option that counts once. @throws UsageError for no name, which would be the folder of work */
export function folderOption(name: string): (value: string, before: string | undefined) => string {
  return (value, before) => {
    if (value === "") throw new UsageError(`--${name} expects a folder, found ''`);
    return resolve(once(name)(value, before));
  };
}
