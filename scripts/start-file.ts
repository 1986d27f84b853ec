/** What a packed program is started by: a small file that checks the version of Node before it loads the program. */

/** The Node that programs are made for, as `engines` of package.json has it. */
export const PROGRAM_ENGINES = { node: ">=26" } as const;
/** The oldest Node that libraries, and the programs in them, run on. */
export const LIBRARY_ENGINES = { node: ">=22" } as const;

/** Flags that older versions of Node refuse with a message of their own, before the check. Images give all flags in their entry point. */
const NEWER_FLAG = /^--max-opt=/;
const FIRST_LINE = /^#!\/usr\/bin\/env (?:-S )?node(.*)$/m;

export interface StartFile {
  /** What users start it by, for the message. */
  readonly program: string;
  /** Source of the program, whose first line gives the flags of Node. */
  readonly source: string;
  readonly engines: { readonly node: string };
  /** The program, as the start file imports it. */
  readonly main: string;
  /** Keeps compiled code in the user's cache, `$XDG_CACHE_HOME` or `~/.cache`, where there is one. */
  readonly isShortLived?: boolean;
}

/** Flags of Node in the first line of a program. */
export function nodeFlags(source: string): string[] {
  return (FIRST_LINE.exec(source)?.[1] ?? "").split(" ").filter((flag) => flag !== "");
}

/** Only below a folder that exists and is the user's own: what is in it is run, also where `sudo` keeps the HOME of another user. */
const CACHE = `
  var fs = process.getBuiltinModule("node:fs");
  var cache = process.env.XDG_CACHE_HOME || (process.env.HOME && process.env.HOME + "/.cache");
  if (cache && fs.existsSync(cache) && fs.statSync(cache).uid === process.getuid())
    process.getBuiltinModule("node:module").enableCompileCache(cache + "/sallyport");`;

/** The text of a start file, in syntax that Node 10 can read. */
export function startFile({ program, source, engines, main, isShortLived = false }: StartFile): string {
  const [, oldest] = /^>=(\d+)$/.exec(engines.node) ?? [];
  if (oldest === undefined) throw new TypeError(`engines.node must be >= and a major version, found ${engines.node}`);
  const flags = nodeFlags(source).filter((flag) => !NEWER_FLAG.test(flag));
  const interpreter = flags.length > 0 ? `-S node ${flags.join(" ")}` : "node";
  return `#!/usr/bin/env ${interpreter}
// Old versions of Node read this file, too: newer syntax belongs into ${main}.
if (parseInt(process.versions.node, 10) >= ${oldest}) {${isShortLived ? CACHE : ""}
  import("${main}");
} else {
  process.stderr.write(
    "${program} needs Node ${oldest}.x or later; this is " + process.version + " (" + process.execPath + "); " +
      "get it from https://nodejs.org, or for one project by: npm install node@${oldest}\\n"
  );
  process.exitCode = 1;
}
`;
}
